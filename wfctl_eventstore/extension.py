"""The interface between the core of wfctl and its extensions.

An extension is a package ``extensions/NAME``. Its module ``extension`` has one object, `EXTENSION`,
which says what the package adds. No module of the core imports a module of an extension. The core
asks the functions of this module, which load an extension when one of its commands, events or
files is used. Without the package, wfctl works, except for what the package adds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from wording import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer
    from sqlalchemy import Connection

    from cli.frame.workspace import Reading
    from eventstore.chain import Schema
    from eventstore.event import Clock
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

#: Extension → the commands and groups of commands that it adds, in the order of the help. The core
#: knows these words also when the package is missing, to say what a command needs.
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


class MissingExtensionError(Coded):
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
    """A view of a workflow or machine that a terminal keeps up to date."""

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return the current view for a terminal of this many columns and lines."""


class RunnerNotifier(Protocol):
    """Sends notices of an autonomous runner."""

    def tell_waiting(self, why: str) -> None:
        """Send that the runner waits until a cause has passed, such as a full disk."""

    def tell_end(self, why: str) -> None:
        """Send why the runner ended; no notice follows."""


class MigratedDatabase(Protocol):
    """A database on a server, as a migration uses it."""

    place: str

    def writing(self) -> AbstractContextManager[Connection]:
        """Open one transaction, in turn with other migrations."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a connection that changes nothing and delays no writer."""

    def require_ours(self, connection: Connection) -> None:
        """Raise `NotOurs` for a database with tables of another program."""


class CheckedCheckpoints(NamedTuple):
    """The result of a comparison of logs with checkpoints.

    ``agree`` is the number of checkpoints that agree. ``findings`` has the first disagreement of
    each log, and ``passed_over`` the reasons why other checkpoints were not compared.
    """

    agree: int = 0
    findings: tuple[Finding, ...] = ()
    passed_over: tuple[str, ...] = ()


class Extension:
    """What an extension adds to the core.

    Each method answers a question of the core, and exactly one extension overrides it. The core
    asks the extension by its name, so the methods here are never called.
    """

    #: Command → the module that has the function of the command.
    commands: ClassVar[Mapping[str, str]] = {}
    #: Section of `wfctl --help` → commands and groups of the extension, each with its line of help.
    help_sections: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: Group of commands → the subcommand that runs if none is given; None: the group is listed.
    groups: ClassVar[Mapping[str, str | None]] = {}

    def catch_up_tables(self, address: Path | str, log: WorkflowLog, least: int) -> None:
        """Write the newest events into SQL tables if they are at least ``least`` events behind."""
        raise NotImplementedError

    def check_tables(self, address: Path | str, log: WorkflowLog) -> Iterator[Finding]:
        """Yield a finding for each SQL table that differs from the log."""
        raise NotImplementedError

    def check_checkpoints(
        self,
        workflow: Reading,
        machines: Iterable[str] = (),
        files: Sequence[Path] = (),
        witnesses: Sequence[str] = (),
        keys: Sequence[str] = (),
    ) -> CheckedCheckpoints:
        """Compare the logs of the root with the checkpoints in it, in files and at witnesses.

        ``machines`` are the ids of the phase machines whose logs are compared too, ``witnesses``
        are addresses, and ``keys`` are further public keys, or files with one.
        """
        raise NotImplementedError

    def check_protocol(self, log: WorkflowLog) -> list[Finding]:
        """Return the first event that violates a promise of the protocol, if there is one."""
        raise NotImplementedError

    def check_receiver(self, receiver: str) -> None:
        """Raise ValueError, with the reason, if no notice can be sent to this receiver."""
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
        """Give a function that sends notices of the events since its last call.

        ``hide`` removes secrets from a notice, and ``say`` prints a problem. ``tells_end`` is False
        if the end of each session needs no notice.
        """
        raise NotImplementedError

    def open_runner_notifier(
        self, receiver: str, workflow: str, root: Path, pid: int
    ) -> RunnerNotifier:
        """Start a process that sends notices of a runner, also if the runner is killed."""
        raise NotImplementedError

    def open_server(
        self, address: str, *, schema: Schema, clock: Clock, read_only: bool, as_is: bool
    ) -> EventStore:
        """Open the log at the URL of a database on a server."""
        raise NotImplementedError

    def open_server_database(self, address: str, wait: float) -> MigratedDatabase:
        """Open the database at a URL for its migrations; ``wait`` bounds each wait, in seconds."""
        raise NotImplementedError

    def open_sql_desk(self, address: str) -> Any:
        """Open the database at a URL for the questions of `wfctl audit sql`."""
        raise NotImplementedError

    def open_machine_log(self, store: EventStore, id_: str, folder: Path) -> StreamLog[Any]:
        """Return the log of a machine, read by the rules of machines; ``folder`` is the root."""
        raise NotImplementedError

    def machine_not_found(self, id_: str) -> Exception:
        """Return the error for a machine that does not exist."""
        raise NotImplementedError

    def find_event_model(self, type_: str) -> type[Payload]:
        """Return the model of the data of an event type of the extension."""
        raise NotImplementedError

    def list_schemas(self, only: str | None) -> dict[str, Any]:
        """Return JSON Schemas by name; ``only`` is the first word of the names that are needed."""
        raise NotImplementedError

    def describe_machine_event(self, type_: str, data: dict[str, Any]) -> str:
        """Return an event of a machine as a sentence."""
        raise NotImplementedError

    def render_machine_documents(self, state: Any) -> dict[str, dict[str, Any]]:
        """Return the content of each state file of a machine, by path."""
        raise NotImplementedError

    def print_machine_documents(
        self, context: typer.Context, id_: str, view: Moment | None
    ) -> None:
        """Print the content of the state files of a machine, now or at a moment."""
        raise NotImplementedError

    def rebuild_machine_files(self, context: typer.Context, id_: str) -> list[str]:
        """Write the state files of a machine again, and return the paths of changed files."""
        raise NotImplementedError

    def find_machine_differences(self, workflow: Reading, id_: str) -> list[Difference]:
        """Return the state files of a machine that differ from its log."""
        raise NotImplementedError

    def explain_machine(
        self, workflow: Reading, id_: str, view: Moment | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return why a machine is in its phase, as plain values and as lines."""
        raise NotImplementedError

    def blame_machine_field(
        self, workflow: Reading, id_: str, field: str, view: Moment | None
    ) -> list[Blame]:
        """Return the newest change of each field of a machine below a dotted path."""
        raise NotImplementedError

    def open_machine_follower(self, workflow: Reading, id_: str, lines: int) -> Follower:
        """Return what a terminal shows of a machine, with the newest ``lines`` of its log."""
        raise NotImplementedError

    def find_machine_decisions(self, workflow: Reading) -> Iterator[InboxItem]:
        """Yield what waits for a person in the machines of a root."""
        raise NotImplementedError

    def open_archive(self, file: Path) -> AbstractContextManager[Root]:
        """Unpack an archive into a temporary folder, and give its root."""
        raise NotImplementedError

    def restore_archive(
        self, context: typer.Context, file: Path, into: Path | None, *, dry_run: bool
    ) -> None:
        """Restore the workflow of an archive, and print the result."""
        raise NotImplementedError


@cache
def is_installed(name: str) -> bool:
    """Return whether the package of an extension is present."""
    return os.path.isfile(os.path.join(_find_folder(), name, "extension.py"))  # noqa: PTH113, PTH118


@cache
def find_extension(name: str) -> Extension | None:
    """Load an extension; return None if its package is missing."""
    if not is_installed(name):
        return None
    found: Extension = import_module(f"extensions.{name}.extension").EXTENSION
    return found


def require_extension(name: str, what: str) -> Extension:
    """Load an extension, or raise `MissingExtensionError`; ``what`` needs it."""
    found = find_extension(name)
    if found is None:
        raise MissingExtensionError(what, name)
    return found


def require_extension_of_command(command: str) -> None:
    """Raise `MissingExtensionError` if a command is known to need an extension that is missing."""
    for name, words in COMMAND_WORDS.items():
        if command in words:
            require_extension(name, f"`wfctl {command}`")


def find_extensions() -> Iterator[Extension]:
    """Load every extension that is installed, in the order of the help."""
    return (found for name in COMMAND_WORDS if (found := find_extension(name)) is not None)


def find_extensions_of_command(word: str) -> Iterator[str]:
    """Yield the names of the extensions that add a command or group of this first word."""
    for name, words in COMMAND_WORDS.items():
        if word in [one.partition(" ")[0] for one in words]:
            yield name


def find_folders() -> Iterator[str]:
    """Return the folders of the installed extensions, in the order of the help."""
    return (os.path.join(_find_folder(), name) for name in COMMAND_WORDS if is_installed(name))  # noqa: PTH118


def find_command_words() -> Iterator[str]:
    """Yield the first words of the commands of the installed extensions, without loading one."""
    for name, words in COMMAND_WORDS.items():
        if is_installed(name):
            yield from [word.partition(" ")[0] for word in words]


@cache
def _find_folder() -> str:
    """Return the folder with the packages of the extensions: see `wfctl_eventstore.__main__`."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    app = os.path.join(here, "app")  # noqa: PTH118
    return os.path.join(app if os.path.isdir(app) else os.path.dirname(here), "extensions")  # noqa: PTH112, PTH118, PTH120
