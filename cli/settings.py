"""The global options of wfctl, and the author of the changes that a command records."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cli.agent_marks import calling_agent
from eventstore.event import Actor
from service.errors import InvalidOption
from service.root.root import RootIs

ACTOR_KINDS = ("user", "agent", "reconciler", "runner", "import")


class Format(StrEnum):
    """Output formats of a command."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class JournalChoice(StrEnum):
    """Journal modes of an SQLite event log."""

    WAL = "wal"
    TRUNCATE = "truncate"


class LogLevel(StrEnum):
    """Levels of messages on stderr. Messages of a lower level are not printed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The number of this level in the logging module of the standard library."""
        return 10 * (1 + list(LogLevel).index(self))


class Color(StrEnum):
    """Settings for the use of colours in the output."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the global options, as the user gave them."""

    root: Path | None = None
    #: Omit the URL from the representation, because it may contain a password.
    database_url: str | None = field(default=None, repr=False)
    format: Format = Format.TEXT
    color: Color = Color.AUTO
    actor: str | None = None
    root_is: RootIs | None = None
    journal: JournalChoice | None = None
    log_level: LogLevel = LogLevel.INFO
    #: Show the rows of the log even if they are damaged or invalid.
    as_is: bool = False

    @property
    def start(self) -> Path:
        """The folder in which the search for the workflow starts."""
        return self.root or Path.cwd()


def actor_of(settings: Settings) -> Actor:
    """Return the author of the changes that this command records.

    The name comes from ``--actor``, or else from the environment variable ``WFCTL_ACTOR``. Without
    both, the author is the current user at a terminal, and an agent elsewhere. If an agent's
    program runs the command, only ``--actor`` can name a person, because the program may have
    inherited the variable from its user. Raises `InvalidOption` for an invalid name.
    """
    text, agent = settings.actor, calling_agent()
    if text is None:
        text = os.environ.get("WFCTL_ACTOR")
        if agent is not None and (text is None or text.startswith("user:")):
            return Actor("agent", agent)
    if text is None:
        if not sys.stdin.isatty():
            return Actor("agent", "unknown")
        import getpass  # an agent needs it never

        return Actor("user", getpass.getuser())
    kind, _, name = text.partition(":")
    if kind not in ACTOR_KINDS or not name:
        raise InvalidOption(
            f"the actor {text!r} does not have the form KIND:NAME. Give a name such as user:ada, "
            f"where the kind is one of {', '.join(ACTOR_KINDS)}.",
            value=text,
        )
    return Actor(kind, name)
