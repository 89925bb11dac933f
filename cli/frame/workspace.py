"""The composition root: from the options to the objects that do the work."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.settings import Settings, actor_of
from cli.terminal.output import LogStanding, Output, say
from eventstore.chain import Schema
from eventstore.errors import NOT_KNOWN, TO_DO, SchemaError
from eventstore.private import has_password, is_server
from lifecycle.payload.event_types import UPCASTERS, VERSIONS, misfit
from service.errors import InvalidOption, NoRoot
from service.root.disk import system_instant
from service.root.root import WORKFLOW, Config, Root, find_root, open_root

if TYPE_CHECKING:
    from eventstore.event import Actor, RecordedEvent
    from eventstore.sqlite.connection import Journal
    from eventstore.store import EventStore
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs
    from service.files.inspection import FilesInspection
    from service.machines.log import MachineLog
    from service.reading.log import WorkflowLog
    from service.reading.moment import Moment
    from service.writing.workflow_service import Service

SCHEMA = Schema(VERSIONS, UPCASTERS, misfit)


@dataclass(frozen=True, slots=True)
class Reading:
    """An opened workflow, for commands that only look."""

    root: Root
    config: Config
    log: WorkflowLog
    output: Output

    @property
    def store(self) -> EventStore:
        """What the logs are kept in."""
        return self.log.store

    @property
    def files(self) -> FilesInspection:
        """The files that show the log."""
        from service.files.inspection import FilesInspection

        return FilesInspection(self.root, self.log)

    def machine(self, id_: str) -> MachineLog:
        """Return the log of a machine in the root."""
        from service.machines.log import MachineLog

        return MachineLog(self.store, id_, self.root.path)

    def state(self, view: Moment | None = None) -> Workflow:
        """Return the state now, or as it was at a moment."""
        return self.log.current(view)


def entry(event: RecordedEvent, state: Workflow) -> dict[str, Any] | None:
    """Return what the log says of an event for people, None if nothing; ``state`` is after it."""
    from projections.files.progress_log import message

    text = message(event, state)
    return shown(event, text) if text is not None else None


def shown(event: RecordedEvent, text: str) -> dict[str, Any]:
    """Return an event as an entry for people, with what it says."""
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


def standing(
    log: WorkflowLog | MachineLog, workflow: str | None, view: Moment | None
) -> LogStanding:
    """Return where a log stands, or stood at a moment; ``workflow`` is the one that it is of."""
    if view is None:
        head = log.store.head(log.stream)
        return LogStanding(workflow, head.version, head.position) if head else LogStanding()
    state = log.state(view)
    if state is None:
        return LogStanding()
    seen = next(iter(log.store.raw(log.stream, after=state.head - 1, upto=state.head)))
    return LogStanding(workflow, state.head, seen.position)


def settings_of(context: typer.Context) -> Settings:
    """Return the options of every command."""
    settings = context.find_root().obj
    return settings if isinstance(settings, Settings) else Settings()


def _rooted(settings: Settings, machine: str | None) -> tuple[Root, Config]:
    try:
        found = open_root(settings.start, settings.database_url, settings.journal)
    except NoRoot as error:
        if machine is None:
            raise
        from lifecycle.machines.errors import StateNotFound

        raise StateNotFound(machine, []) from error
    # The tasks of machines are worked at in work trees of their own.
    if machine is None and settings.root is None:
        _tell_of_work_tree(settings.start, found[0].path)
    return found


@cache
def _tell_of_work_tree(start: Path, root: Path) -> None:
    from service.root.work_tree import other_work_tree

    if other_work_tree(start, root) is not None:
        say(f"wfctl: the root is {root}, in another work tree of this repository")


def require_work_tree_of_root(context: typer.Context) -> None:
    """Raise `InvalidOption` in another work tree of the root's repository, unless --root is given.

    The command would take the files of the root, and the caller may have edited those here.
    """
    from service.root.work_tree import other_work_tree

    settings = settings_of(context)
    if settings.root is not None:
        return
    root = find_root(settings.start).path
    here = other_work_tree(settings.start, root)
    if here is not None:
        raise InvalidOption(
            f"this command takes files of the root {root}, and {here} is another work tree of its "
            f"repository: give --root {root} for the files there, or call it there"
        )


def reading(context: typer.Context, machine: str | None = None) -> AbstractContextManager[Reading]:
    """Open the root for reading, without a lock; raises `NoRoot`, of a machine `StateNotFound`."""
    return reading_of(settings_of(context), machine)


@contextmanager
def reading_of(settings: Settings, machine: str | None = None) -> Iterator[Reading]:
    """Open for reading the root that the settings name."""
    from service.reading.log import WorkflowLog

    root, config = _rooted(settings, machine)
    with closing(opened(root, read_only=True, as_is=settings.as_is)) as store:
        log = WorkflowLog(store, config.stream, root.path)
        output = Output(settings, partial(standing, log, config.workflow), root, log)
        yield Reading(root, config, log, output)


@contextmanager
def writing(
    context: typer.Context, dry_run: bool, *, anywhere: bool = False
) -> Iterator[tuple[Service, Output]]:
    """Open the workflow for writing; for a dry run, as a command that only looks does.

    Raises `AnotherLog` where another log is pinned in the root, and `RootElsewhere` where the root
    is not where it was, and nobody says what happened; ``anywhere``: it does not matter.
    """
    from service.reading.log import WorkflowLog
    from service.writing.workflow_service import Service

    settings = settings_of(context)
    with acting_in(settings, dry_run) as (root, config, store, actor):
        log = WorkflowLog(store, config.stream, root.path)
        service = Service(root, log, actor)
        if not dry_run:
            log.approvals.require_not_swapped()
        if not (dry_run or anywhere):
            service.settle_place(settings.root_is)
            _remember(root)
        yield service, Output(settings, partial(standing, log, config.workflow), root, log)


@contextmanager
def acting_in(
    settings: Settings, dry_run: bool, machine: str | None = None
) -> Iterator[tuple[Root, Config, EventStore, Actor]]:
    """Open a root's log for writing, and say who acts; raises as `reading` does."""
    require_checked(settings)
    root, config = _rooted(settings, machine)
    actor = actor_of(settings)
    with closing(opened(root, read_only=dry_run, strict=True)) as store:
        yield root, config, store, actor


@contextmanager
def tidying_up() -> Iterator[None]:
    """End by SIGTERM or SIGHUP as by an error: what the block made is taken away.

    What is ignored already (nohup) stays ignored.
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


def _remember(root: Root) -> None:
    from service.root.trust import remember

    remember(root.path)


def require_checked(settings: Settings) -> None:
    """Raise `InvalidOption` where a command that writes is to take the log as it stands."""
    if settings.as_is:
        raise InvalidOption("--as-is is for commands that only read: nothing is written by it")


def opened(root: Root, *, read_only: bool, as_is: bool = False, strict: bool = False) -> EventStore:
    """Open the root's log; ``as_is``: its rows are read unchecked, and that is said.

    Anyone who only reads is shown the log without the events that this program does not know, and
    that is said; ``strict``: they end the command, as they do where something is written.
    """
    from eventstore.engine import open_log

    if as_is:
        say("wfctl: the log is shown as it stands; nothing of it was checked")
    return open_log(
        root.address,
        schema=SCHEMA if strict or not read_only else replace(SCHEMA, unknown=_telling_once()),
        clock=system_instant,
        read_only=read_only,
        as_is=as_is,
        journal=root.journal,
    )


def _telling_once() -> Callable[[SchemaError], None]:
    """Return what says of each type that is not known that it is left out; once, if read again."""
    told: set[tuple[str, str]] = set()

    def tell(error: SchemaError) -> None:
        one = (error.place.split()[0], error.type)
        if one not in told:
            told.add(one)
            say(
                f"wfctl: {error.place}: {NOT_KNOWN} {error.type!r:.80}; it is left out, and what "
                f"is shown may not be so; {TO_DO}"
            )

    return tell


def journal_of(root: Root) -> Journal | None:
    """Return the journal of a log on SQLite; a server keeps its own."""
    from eventstore.sqlite.connection import journal_for

    address = root.address
    return journal_for(address, root.journal) if isinstance(address, Path) else None


def address_here(context: typer.Context) -> Path | str:
    """Return where the log is: the root's, or a server's that is named where there is no root."""
    settings = settings_of(context)
    try:
        return open_root(settings.start, settings.database_url, settings.journal)[0].address
    except NoRoot:
        if settings.database_url is None or not is_server(settings.database_url):
            raise
        return settings.database_url


def create(root: Root) -> EventStore:
    """Open the root's log for writing, made first where it is not there."""
    from migrations.upgrade import upgrade

    upgrade(root.address)
    _remember(root)
    return opened(root, read_only=False)


def tell_of_password(url: str | None) -> None:
    """Say that a password is not written down, and where it may stand instead."""
    if url is not None and is_server(url) and has_password(url):
        say(
            "wfctl: the password is not kept in config.toml; put it into ~/.pgpass, PGPASSWORD or "
            "WFCTL_DATABASE_URL"
        )


@contextmanager
def engine(context: typer.Context, dry_run: bool = False) -> Iterator[tuple[Jobs, Output]]:
    """Open the workflow with its job runner."""
    from cli.terminal.talk import Talk
    from reconciler.context import Jobs
    from reconciler.dpdispatcher.late_runner import late_runner

    with writing(context, dry_run) as (service, output):
        talk = Talk(settings_of(context), lambda: service.log.stream.removeprefix(WORKFLOW))
        jobs = Jobs(service, late_runner(), talk.say, talk.tell)
        try:
            yield replace(jobs, waits=partial(talk.waits, jobs)), output
        finally:
            talk.clear()


def newest_attempt(context: typer.Context, stage: str) -> str | None:
    """Return the id of the stage's newest attempt."""
    with reading(context) as workflow:
        attempt = workflow.state().stage(stage).attempt
        return attempt.id if attempt is not None else None
