"""Open the workflow, its log and its job runner, as the options of a command require."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.frame.context import Context
from cli.settings import Settings, actor_of
from cli.terminal.output import LastEventInfo, Output, print_message
from eventstore.database_url import has_password, is_postgres_url
from eventstore.errors import NOT_KNOWN, TO_DO, SchemaError
from eventstore.schema import Schema
from lifecycle.payload.check_data import fill_defaults_and_find_misfit
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from service.errors import InvalidOption, NoRoot
from service.root.atomic_files import system_instant
from service.root.root import WORKFLOW, Config, Root, find_root, open_root
from wfctl_eventstore.extension import require_extension

if TYPE_CHECKING:
    from eventstore.event import Actor, RecordedEvent
    from eventstore.sqlite.connection import Journal
    from eventstore.store import EventStore
    from lifecycle.state.workflow import Workflow
    from reconciler.context import JobContext
    from service.files.inspection import FilesInspection
    from service.reading.log import WorkflowLog
    from service.reading.point_in_history import Moment
    from service.reading.stream_log import StreamLog
    from service.writing.workflow_service import Service

SCHEMA = Schema(VERSIONS, UPCASTERS, fill_defaults_and_find_misfit)


class OpenedWorkflow(NamedTuple):
    """An opened workflow for commands that only read."""

    root: Root
    config: Config
    log: WorkflowLog
    output: Output

    @property
    def store(self) -> EventStore:
        """The event store that contains the logs of the workflow folder."""
        return self.log.store

    @property
    def files(self) -> FilesInspection:
        """An object that compares the generated files with the log."""
        from service.files.inspection import FilesInspection

        return FilesInspection(self.root, self.log)

    @property
    def is_of_all_machines(self) -> bool:
        """Return whether the folder contains only machines, and none of them was named."""
        return self.config.workflow is None and self.log.stream == self.config.stream

    def machine(self, id_: str) -> StreamLog[Any]:
        """Return the log of the named phase machine in this folder."""
        machines = require_extension("machines", f"the machine {id_}")
        return machines.open_machine_log(self.store, id_, self.root.path)

    def state(self, view: Moment | None = None) -> Workflow:
        """Return the state of the workflow now, or at an earlier moment."""
        return self.log.current(view)


def describe_entry(event: RecordedEvent, state: Workflow) -> dict[str, Any] | None:
    """Return the log entry of an event for people, or None if the event has no entry.

    ``state`` is the state of the workflow after the event.
    """
    from projections.files.progress_log import format_line_without_time

    text = format_line_without_time(event, state)
    return build_entry(event, text) if text is not None else None


def build_entry(event: RecordedEvent, text: str) -> dict[str, Any]:
    """Return the log entry of an event for people, which contains the given text."""
    return {
        "version": event.version,
        "type": event.type,
        "occurred_at": event.occurred_at,
        "recorded_at": event.recorded_at,
        "utc_offset": event.utc_offset,
        "actor": f"{event.actor.kind}:{event.actor.name}",
        "session": event.session,
        "stage": event.data.get("stage"),
        "message": text,
    }


def read_last_event_info(
    log: StreamLog[Any], workflow: str | None, view: Moment | None
) -> LastEventInfo:
    """Return the version and position of a log's last event, now or at an earlier moment.

    ``workflow`` is the id of the workflow.
    """
    if view is None:
        head = log.store.head(log.stream)
        return LastEventInfo(workflow, head.version, head.position) if head else LastEventInfo()
    state = log.state(view)
    if state is None:
        return LastEventInfo()
    seen = next(iter(log.store.raw(log.stream, after=state.head - 1, upto=state.head)))
    return LastEventInfo(workflow, state.head, seen.position)


def settings_of(context: Context) -> Settings:
    """Return the values of the options that every command accepts."""
    settings = context.find_root().obj
    return settings if isinstance(settings, Settings) else Settings()


def _open_root_for(settings: Settings, machine: str | None) -> tuple[Root, Config]:
    try:
        found = open_root(settings.start, settings.database_url, settings.journal)
    except NoRoot as error:
        if machine is None:
            raise
        machines = require_extension("machines", f"the machine {machine}")
        raise machines.machine_not_found(machine) from error
    # Print a warning if the caller is in another Git work tree. Agents that work on tasks of a
    # machine use such work trees on purpose, so skip the warning for machines.
    if machine is None and settings.root is None:
        _warn_other_work_tree(settings.start, found[0].path)
    return found


@cache
def _warn_other_work_tree(start: Path, root: Path) -> None:
    from service.root.work_tree import other_work_tree

    if other_work_tree(start, root) is not None:
        print_message(f"wfctl: the root is {root}, in another work tree of this repository")


def require_work_tree_of_root(context: Context) -> None:
    """Raise `InvalidOption` if the caller is in another Git work tree than the workflow.

    The command would use the files in the workflow's work tree, but the caller may have edited the
    files in the current one. The option --root allows this.
    """
    from service.root.work_tree import other_work_tree

    settings = settings_of(context)
    if settings.root is not None:
        return
    root = find_root(settings.start).path
    here = other_work_tree(settings.start, root)
    if here is not None:
        raise InvalidOption(
            f"this command would use the files of {root}, but the current folder {here} belongs "
            f"to another work tree of the same Git repository. Add --root {root}, or run the "
            "command in that folder."
        )


def open_for_reading(
    context: Context, machine: str | None = None
) -> AbstractContextManager[OpenedWorkflow]:
    """Open the workflow folder for reading, without a lock.

    Raises `NoRoot` if no workflow folder is found, and `StateNotFound` for an unknown machine.
    """
    return open_workflow_for_reading(settings_of(context), machine)


@contextmanager
def open_workflow_for_reading(
    settings: Settings, machine: str | None = None
) -> Iterator[OpenedWorkflow]:
    """Open the workflow folder that the settings name, for reading."""
    from service.reading.log import WorkflowLog

    root, config = _open_root_for(settings, machine)
    with closing(open_root_log(root, read_only=True, as_is=settings.as_is)) as store:
        log = WorkflowLog(store, config.stream, root.path)
        output = Output(settings, partial(read_last_event_info, log, config.workflow), root, log)
        yield OpenedWorkflow(root, config, log, output)


@contextmanager
def open_for_writing(
    context: Context, dry_run: bool, *, anywhere: bool = False
) -> Iterator[tuple[Service, Output]]:
    """Open the workflow for writing. A dry run opens it only for reading.

    Raises `AnotherLog` if the folder is pinned to another log. Raises `RootElsewhere` if the folder
    is in a new place and the caller did not state whether it was moved or copied. ``anywhere``
    skips the check of the place.
    """
    from service.reading.log import WorkflowLog
    from service.writing.workflow_service import Service

    settings = settings_of(context)
    with open_log_for_writing(settings, dry_run) as (root, config, store, actor):
        log = WorkflowLog(store, config.stream, root.path)
        service = Service(root, log, actor)
        if not dry_run:
            log.approvals.require_no_pin_conflict()
        if not (dry_run or anywhere):
            service.settle_place(settings.root_is)
            _remember_root(root)
        yield (
            service,
            Output(settings, partial(read_last_event_info, log, config.workflow), root, log),
        )


@contextmanager
def open_log_for_writing(
    settings: Settings, dry_run: bool, machine: str | None = None
) -> Iterator[tuple[Root, Config, EventStore, Actor]]:
    """Open the log of a workflow folder for writing, or only for reading in a dry run.

    Yield the folder, its configuration, the event store and the author of the changes. Raises the
    same errors as `open_for_reading`.
    """
    require_no_as_is_option(settings)
    root, config = _open_root_for(settings, machine)
    actor = actor_of(settings)
    with closing(open_root_log(root, read_only=dry_run, strict=True)) as store:
        yield root, config, store, actor


@contextmanager
def convert_signals_to_exit() -> Iterator[None]:
    """Convert SIGTERM and SIGHUP into SystemExit, so that the block can clean up.

    A signal that the process already ignores, for example under nohup, stays ignored.
    """

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    asking = (signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in asking if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _remember_root(root: Root) -> None:
    from service.root.trust import remember_root

    remember_root(root.path)


def require_no_as_is_option(settings: Settings) -> None:
    """Raise `InvalidOption` if a command that writes has the option --as-is.

    With this option, wfctl would read the log without checking it.
    """
    if settings.as_is:
        raise InvalidOption(
            "the option --as-is can be used only with commands that read the log. Remove --as-is."
        )


def open_root_log(
    root: Root, *, read_only: bool, as_is: bool = False, strict: bool = False
) -> EventStore:
    """Open the log of a workflow folder.

    ``as_is`` reads the rows without checking them, and prints a note. For reading, unknown events
    are left out and a note is printed. For writing, or with ``strict``, an unknown event raises an
    error.
    """
    from eventstore.engine import open_log

    if as_is:
        print_message("wfctl: the log is shown without being checked")
    return open_log(
        root.address,
        schema=SCHEMA
        if strict or not read_only
        else replace(SCHEMA, unknown=_build_unknown_event_printer()),
        clock=system_instant,
        read_only=read_only,
        as_is=as_is,
        journal=root.journal,
    )


def _build_unknown_event_printer() -> Callable[[SchemaError], None]:
    """Return a function that prints a note about an unknown event.

    It prints only one note for each log and event type.
    """
    told: set[tuple[str, str]] = set()

    def tell(error: SchemaError) -> None:
        one = (error.place.split()[0], error.type)
        if one not in told:
            told.add(one)
            print_message(
                f"wfctl: {error.place}: {NOT_KNOWN} {error.type!r:.80}. The event is left out, so "
                f"the state shown here may be wrong; {TO_DO}"
            )

    return tell


def journal_of(root: Root) -> Journal | None:
    """Return the journal mode of an SQLite log, or None for a log on a database server."""
    from eventstore.sqlite.connection import choose_journal_settings

    address = root.address
    return choose_journal_settings(address, root.journal) if isinstance(address, Path) else None


def find_log_address(context: Context) -> Path | str:
    """Return the address of the log of the current workflow folder.

    Without a workflow folder, return the URL of the database server from the options. Raises
    `NoRoot` if neither exists.
    """
    settings = settings_of(context)
    try:
        return open_root(settings.start, settings.database_url, settings.journal)[0].address
    except NoRoot:
        if settings.database_url is None or not is_postgres_url(settings.database_url):
            raise
        return settings.database_url


def create_log(root: Root) -> EventStore:
    """Open the log of a workflow folder for writing. Create the log if it does not exist."""
    from migrations.upgrade import upgrade_database

    upgrade_database(root.address)
    _remember_root(root)
    return open_root_log(root, read_only=False)


def warn_password_not_stored(url: str | None) -> None:
    """Print a note if a database URL contains a password.

    The note states that wfctl does not store the password, and where the user can store it.
    """
    if url is not None and is_postgres_url(url) and has_password(url):
        print_message(
            "wfctl: the password is not kept in config.toml; put it into ~/.pgpass, PGPASSWORD or "
            "WFCTL_DATABASE_URL"
        )


@contextmanager
def open_job_runner(context: Context, dry_run: bool = False) -> Iterator[tuple[JobContext, Output]]:
    """Open the workflow for writing, together with the object that runs its jobs."""
    from cli.terminal.progress_messages import ProgressPrinter
    from reconciler.context import JobContext
    from reconciler.dpdispatcher.late_runner import late_runner

    with open_for_writing(context, dry_run) as (service, output):
        talk = ProgressPrinter(
            settings_of(context), lambda: service.log.stream.removeprefix(WORKFLOW)
        )
        jobs = JobContext(service, late_runner(), talk.say, talk.tell)
        try:
            yield replace(jobs, waits=partial(talk.waits, jobs)), output
        finally:
            talk.clear()


def newest_attempt(context: Context, stage: str) -> str | None:
    """Return the id of the newest attempt (run) of a stage, or None if it never ran."""
    with open_for_reading(context) as workflow:
        attempt = workflow.state().stage(stage).attempt
        return attempt.id if attempt is not None else None
