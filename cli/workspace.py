"""The composition root: from the options to the objects that do the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.output import Output, Standing, say
from cli.settings import Settings, actor_of
from eventstore.address import has_password, is_server
from eventstore.codec import Schema
from eventstore.engine import open_log
from eventstore.event import RecordedEvent
from eventstore.journal import Journal, journal_for
from eventstore.store import EventStore
from lifecycle.schema import UPCASTERS, VERSIONS
from lifecycle.workflow import Workflow
from projections.progress_log import message
from service.clock import system_instant
from service.errors import NoRoot
from service.inspection import FilesInspection
from service.log import WorkflowLog
from service.moment import Moment, parse_moment
from service.root import Config, Root, open_root
from service.service import Service

if TYPE_CHECKING:
    from reconciler.jobs import Jobs
    from service.machines.log import MachineLog

SCHEMA = Schema(VERSIONS, UPCASTERS)


@dataclass(frozen=True, slots=True)
class Reading:
    """An opened workflow, for commands that only look."""

    root: Root
    config: Config
    log: WorkflowLog
    output: Output

    @property
    def files(self) -> FilesInspection:
        """The files that show the log."""
        return FilesInspection(self.root, self.log)

    def state(self, at: str | None = None, known_at: str | None = None) -> Workflow:
        """Return the state now, or as it was at a moment."""
        return self.log.current(moment(at, known_at))

    def replayed(self, at: str | None = None, known_at: str | None = None) -> Workflow:
        """Return the state folded from the first event, whatever is stored."""
        return self.log.replayed(moment(at, known_at))


def entry(event: RecordedEvent, state: Workflow) -> dict[str, Any] | None:
    """Return what the log says of an event for people, None where it has no line.

    ``state`` is the one after the event.
    """
    text = message(event, state)
    if text is None:
        return None
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


def standing(log: WorkflowLog | MachineLog, workflow: str | None, view: Moment | None) -> Standing:
    """Return where a log stands, or stood at a moment; ``workflow`` is the one that it is of."""
    if view is None:
        head = log.store.head(log.stream)
        return Standing(workflow, head.version, head.position) if head else Standing()
    state = log.state(view)
    if state is None:
        return Standing()
    seen = next(iter(log.store.raw(log.stream, after=state.head - 1)))
    return Standing(workflow, state.head, seen.position)


def moment(at: str | None, known_at: str | None) -> Moment | None:
    """Return the moment that the options name, None for now."""
    return None if at is None and known_at is None else parse_moment(at, known_at)


def settings_of(context: typer.Context) -> Settings:
    """Return the options of every command."""
    settings = context.find_root().obj
    return settings if isinstance(settings, Settings) else Settings()


@contextmanager
def reading(context: typer.Context) -> Iterator[Reading]:
    """Open the workflow for reading: nothing is written, no lock is taken."""
    with reading_of(settings_of(context)) as workflow:
        yield workflow


@contextmanager
def reading_of(settings: Settings) -> Iterator[Reading]:
    """Open for reading the workflow that the settings name."""
    root, config = open_root(settings.start, settings.database_url, settings.journal)
    store = opened(root, read_only=True)
    try:
        log = WorkflowLog(store, config.stream, root.path)
        output = Output(settings, partial(standing, log, config.workflow))
        yield Reading(root, config, log, output)
    finally:
        store.close()


@contextmanager
def writing(
    context: typer.Context, dry_run: bool, *, anywhere: bool = False
) -> Iterator[tuple[Service, Output]]:
    """Open the workflow for writing; for a dry run, as a command that only looks does.

    Raises `RootElsewhere` where the root is not where it was, and nobody says what happened;
    ``anywhere``: it does not matter.
    """
    settings = settings_of(context)
    root, config = open_root(settings.start, settings.database_url, settings.journal)
    actor = actor_of(settings)
    store = opened(root, read_only=dry_run)
    try:
        log = WorkflowLog(store, config.stream, root.path)
        service = Service(root, log, actor)
        if not (dry_run or anywhere):
            service.settle_place(settings.root_is)
        yield service, Output(settings, partial(standing, log, config.workflow))
    finally:
        store.close()


def opened(root: Root, *, read_only: bool) -> EventStore:
    """Open the root's log."""
    return open_log(
        root.address,
        schema=SCHEMA,
        clock=system_instant,
        read_only=read_only,
        journal=root.journal,
    )


def journal_of(root: Root) -> Journal | None:
    """Return the journal of a log on SQLite; a server keeps its own."""
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
    from migrations.upgrade import upgrade  # Alembic is only loaded here

    upgrade(root.address)
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
    from cli.talk import Talk
    from reconciler.dpdisp import DPDispatcherRunner
    from reconciler.jobs import Jobs

    with writing(context, dry_run) as (service, output):
        talk = Talk(settings_of(context), lambda: service.state().id)
        yield Jobs(service, DPDispatcherRunner(), talk.say, talk.tell), output


def newest_attempt(context: typer.Context, stage: str) -> str | None:
    """Return the id of the stage's newest attempt."""
    with reading(context) as workflow:
        attempt = workflow.state().stage(stage).attempt
        return attempt.id if attempt is not None else None
