"""The interface between the core of wfctl and its extensions.

An extension is a package ``extensions/NAME``. Its module ``extension`` has an object `EXTENSION`,
which lists what the package adds. Modules of the core never import modules of an extension. They
use the functions of this module, which load an extension when one of its commands, events or files
is used. Without the package, everything else in wfctl works.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from cli.frame.context import Context
from wording import CodedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy import Connection

    from cli.frame.workspace import OpenedWorkflow
    from eventstore.event import Clock
    from eventstore.schema import Schema
    from eventstore.store import EventStore
    from eventstore.verification import Finding
    from lifecycle.payload.base import Payload
    from projections.screens.inbox import InboxItem
    from projections.screens.watch_view import View
    from service.files.inspection import Difference
    from service.questions.blame import Blame
    from service.reading.log import WorkflowLog
    from service.reading.point_in_history import Moment
    from service.reading.stream_log import StreamLog
    from service.root.root import Root

#: The commands and command groups of each extension, in the order of the help. The core knows them
#: even if an extension is missing, in order to report which extension a command needs.
COMMAND_WORDS: dict[str, tuple[str, ...]] = {
    "demo": ("demo",),
    "agents": ("mcp", "agent"),
    "pages": ("serve",),
    "exports": ("export",),
    "adoption": ("import",),
    "handover": ("db copy", "db backup", "db restore", "db salvage"),
    "protocol_check": (),
    "notices": (),
    "postgres": (),
    "history": ("audit", "db project"),
    "proofs": ("checkpoint", "witness", "prove", "pin"),
    "machines": ("machine",),
}


class MissingExtensionError(CodedError):
    """A command, event or file needs an extension that is not installed."""

    code = "extension_missing"
    exit_code = 3

    def __init__(self, what: str, extension: str) -> None:
        super().__init__(
            f"{what} needs the extension {extension}, which is not installed. Install wfctl again "
            "with all of its files.",
            extension=extension,
        )


class Follower(Protocol):
    """A live view of a workflow or phase machine in a terminal."""

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return the current view, for a terminal with the given number of columns and lines."""


class RunnerNotifier(Protocol):
    """Sends notifications about an autonomous runner to a user."""

    def tell_waiting(self, why: str) -> None:
        """Send a notification that the runner waits for a temporary cause, such as a full disk."""

    def tell_end(self, why: str) -> None:
        """Send the last notification, with the reason why the runner ended."""


class MigratedDatabase(Protocol):
    """The interface of a database on a server for migrations."""

    place: str

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a connection with a transaction. Wait until other migrations have ended."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection that changes nothing and blocks no writer."""

    def require_ours(self, connection: Connection) -> None:
        """Raise `NotOurs` if the database contains tables of another program."""


class CheckedCheckpoints(NamedTuple):
    """The result of comparing event logs with checkpoints (signed statements about a log).

    ``agree`` is the number of checkpoints that match. ``findings`` has the first mismatch of each
    log, and ``passed_over`` has the reasons why other checkpoints could not be compared.
    """

    agree: int = 0
    findings: tuple[Finding, ...] = ()
    passed_over: tuple[str, ...] = ()


class Extension:
    """Base class for the interface of an extension: its commands, and functions for the core.

    Each method is overridden by exactly one extension. The core calls the method of that extension,
    and never the methods of this class.
    """

    #: For each command of the extension, the module with the function of the command.
    commands: ClassVar[Mapping[str, str]] = {}
    #: For each section of `wfctl --help`, the commands and groups of the extension, with their help
    #: lines.
    help_sections: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: For each command group, the subcommand that runs by default. None means that the subcommands
    #: are listed.
    groups: ClassVar[Mapping[str, str | None]] = {}

    def catch_up_tables(self, address: Path | str, log: WorkflowLog, least: int) -> None:
        """Update the SQL tables of the history if they lack ``least`` or more events."""
        raise NotImplementedError

    def check_tables(self, address: Path | str, log: WorkflowLog) -> Iterator[Finding]:
        """Yield a finding for each SQL table of the history that differs from the log."""
        raise NotImplementedError

    def check_checkpoints(
        self,
        workflow: OpenedWorkflow,
        machines: Iterable[str] = (),
        files: Sequence[Path] = (),
        witnesses: Sequence[str] = (),
        keys: Sequence[str] = (),
    ) -> CheckedCheckpoints:
        """Compare the event logs of a workflow folder with checkpoints.

        A checkpoint is a signed statement about a log. The checkpoints come from the folder, from
        ``files`` and from witness servers, whose addresses are ``witnesses``. ``machines`` are the
        ids of phase machines whose logs are also compared. ``keys`` are additional public keys, or
        files that contain one.
        """
        raise NotImplementedError

    def check_protocol(self, log: WorkflowLog) -> list[Finding]:
        """Return a finding for the first event that violates a promise of the protocol, if any."""
        raise NotImplementedError

    def check_receiver(self, receiver: str) -> None:
        """Raise ValueError, with the reason, if notifications cannot be sent to this receiver."""
        raise NotImplementedError

    def open_notifier(
        self,
        receiver: str,
        log: WorkflowLog,
        folder: Path,
        hide: Callable[[dict[str, Any]], dict[str, Any]],
        say: Callable[[str], None],
        *,
        tells_end: bool,
    ) -> AbstractContextManager[Callable[[], None]]:
        """Return a function that sends notifications about all events since its last call.

        ``hide`` removes secrets from a notification, and ``say`` prints a problem. With
        ``tells_end`` set to False, no notification is sent when a session ends.
        """
        raise NotImplementedError

    def open_runner_notifier(
        self, receiver: str, workflow: str, root: Path, pid: int
    ) -> RunnerNotifier:
        """Start a process that sends notifications about a runner.

        The process continues even if the runner is killed.
        """
        raise NotImplementedError

    def open_server(
        self, address: str, *, schema: Schema, clock: Clock, read_only: bool, as_is: bool
    ) -> EventStore:
        """Open the event log at the URL of a database on a server."""
        raise NotImplementedError

    def open_server_database(self, address: str, wait: float) -> MigratedDatabase:
        """Open the database at a URL for migrations. ``wait`` limits each wait, in seconds."""
        raise NotImplementedError

    def open_sql_desk(self, address: str) -> Any:
        """Open the database at a URL for the SQL queries of `wfctl audit sql`."""
        raise NotImplementedError

    def open_machine_log(self, store: EventStore, id_: str, folder: Path) -> StreamLog[Any]:
        """Return the event log of a phase machine. ``folder`` is the workflow folder."""
        raise NotImplementedError

    def machine_not_found(self, id_: str) -> Exception:
        """Return the error for a phase machine that does not exist."""
        raise NotImplementedError

    def find_event_model(self, type_: str) -> type[Payload]:
        """Return the pydantic model for the data of an event type that this extension adds."""
        raise NotImplementedError

    def list_schemas(self, only: str | None) -> dict[str, Any]:
        """Return the JSON Schemas of the extension by name.

        If ``only`` is given, return only the schemas whose names start with this word.
        """
        raise NotImplementedError

    def describe_machine_event(self, type_: str, data: dict[str, Any]) -> str:
        """Return a sentence that describes an event of a phase machine."""
        raise NotImplementedError

    def render_machine_documents(self, state: Any) -> dict[str, dict[str, Any]]:
        """Return the contents of each state file of a phase machine, by path."""
        raise NotImplementedError

    def print_machine_documents(self, context: Context, id_: str, view: Moment | None) -> None:
        """Print the contents of a phase machine's state files, now or at an earlier moment."""
        raise NotImplementedError

    def rebuild_machine_files(self, context: Context, id_: str) -> list[str]:
        """Write the state files of a phase machine again. Return the paths of the changed files."""
        raise NotImplementedError

    def find_machine_differences(self, workflow: OpenedWorkflow, id_: str) -> list[Difference]:
        """Return the differences between the state files of a phase machine and its log."""
        raise NotImplementedError

    def explain_machine(
        self, workflow: OpenedWorkflow, id_: str, view: Moment | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the reasons why a phase machine is in its current phase.

        They are returned as JSON values and as lines of text.
        """
        raise NotImplementedError

    def blame_machine_field(
        self, workflow: OpenedWorkflow, id_: str, field: str, view: Moment | None
    ) -> list[Blame]:
        """Return the last change of each field of a phase machine below a dotted path."""
        raise NotImplementedError

    def open_machine_follower(self, workflow: OpenedWorkflow, id_: str, lines: int) -> Follower:
        """Return a live view of a phase machine that includes the last ``lines`` of its log."""
        raise NotImplementedError

    def find_machine_decisions(self, workflow: OpenedWorkflow) -> Iterator[InboxItem]:
        """Yield each decision that a phase machine in a workflow folder needs from a person."""
        raise NotImplementedError

    def open_archive(self, file: Path) -> AbstractContextManager[Root]:
        """Return a context manager that unpacks an archive into a temporary folder.

        It provides the temporary folder as a root.
        """
        raise NotImplementedError

    def restore_archive(
        self, context: Context, file: Path, into: Path | None, *, dry_run: bool
    ) -> None:
        """Restore the workflow from an archive file, and print the result."""
        raise NotImplementedError


@cache
def is_installed(name: str) -> bool:
    """Return whether the package of the named extension exists."""
    return os.path.isfile(os.path.join(_find_folder(), name, "extension.py"))  # noqa: PTH113, PTH118


@cache
def find_extension(name: str) -> Extension | None:
    """Load the named extension. Return None if its package is missing."""
    if not is_installed(name):
        return None
    found: Extension = import_module(f"extensions.{name}.extension").EXTENSION
    return found


def require_extension(name: str, what: str) -> Extension:
    """Load the named extension. Raises `MissingExtensionError` if its package is missing.

    ``what`` is the command or function that needs the extension, for the error message.
    """
    found = find_extension(name)
    if found is None:
        raise MissingExtensionError(what, name)
    return found


def require_extension_of_command(command: str) -> None:
    """Raise `MissingExtensionError` if the command belongs to an extension that is missing."""
    for name, words in COMMAND_WORDS.items():
        if command in words:
            require_extension(name, f"`wfctl {command}`")


def find_extensions() -> Iterator[Extension]:
    """Load and yield every installed extension, in the order of the help."""
    return (found for name in COMMAND_WORDS if (found := find_extension(name)) is not None)


def find_extensions_of_command(word: str) -> Iterator[str]:
    """Yield the names of the extensions that add a command starting with the given word."""
    for name, words in COMMAND_WORDS.items():
        if word in [one.partition(" ")[0] for one in words]:
            yield name


def find_extension_folders() -> Iterator[str]:
    """Yield the folders of the installed extensions, in the order of the help."""
    return (os.path.join(_find_folder(), name) for name in COMMAND_WORDS if is_installed(name))  # noqa: PTH118


def find_command_words() -> Iterator[str]:
    """Yield the first words of the commands of installed extensions, without loading them."""
    for name, words in COMMAND_WORDS.items():
        if is_installed(name):
            yield from [word.partition(" ")[0] for word in words]


@cache
def _find_folder() -> str:
    """Return the folder that contains the packages of all extensions.

    `wfctl_eventstore.__main__` describes the place of this folder.
    """
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    app = os.path.join(here, "app")  # noqa: PTH118
    return os.path.join(app if os.path.isdir(app) else os.path.dirname(here), "extensions")  # noqa: PTH112, PTH118, PTH120
