"""What the options of every command say."""

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
    """How results are printed."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class JournalChoice(StrEnum):
    """The journal of a log on SQLite."""

    WAL = "wal"
    TRUNCATE = "truncate"


class LogLevel(StrEnum):
    """What is said on stderr: this and what is graver."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """As the standard library numbers levels."""
        return 10 * (1 + list(LogLevel).index(self))


class Color(StrEnum):
    """When colours are used."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of every command, as given."""

    root: Path | None = None
    #: Not in the representation, as it may hold a password.
    database_url: str | None = field(default=None, repr=False)
    format: Format = Format.TEXT
    color: Color = Color.AUTO
    actor: str | None = None
    root_is: RootIs | None = None
    journal: JournalChoice | None = None
    log_level: LogLevel = LogLevel.INFO
    #: Rows of the log are shown as they stand, whatever is wrong with them.
    as_is: bool = False

    @property
    def start(self) -> Path:
        """Where the search for the workflow root begins."""
        return self.root or Path.cwd()


def actor_of(settings: Settings) -> Actor:
    """Return who acts: ``--actor``, else ``WFCTL_ACTOR``, else by whether this is a terminal.

    Within an agent's program only ``--actor`` names a person: a variable is inherited from the
    login that started that program.
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


VERSION = "0.1.0"
