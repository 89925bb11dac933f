"""The composition root: from the options to the objects that do the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from cli.output import Output, say
from cli.settings import Settings, actor_of
from eventstore.codec import Schema
from eventstore.sqlite import open_store
from eventstore.store import EventStore
from lifecycle.schema import UPCASTERS, VERSIONS
from lifecycle.workflow import Workflow
from projections.progress_log import message
from service.clock import system_clock
from service.inspection import FilesInspection
from service.log import WorkflowLog
from service.moment import parse_moment
from service.root import Config, Root, open_root
from service.service import Outcome, Service

if TYPE_CHECKING:
    from reconciler.jobs import Jobs

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

    def state(self, at: str | None = None) -> Workflow:
        """Return the state now, or as it was at a moment."""
        return self.log.current(parse_moment(at) if at is not None else None)

    def replayed(self, at: str | None = None) -> Workflow:
        """Return the state folded from the first event, whatever is stored."""
        return self.log.replayed(parse_moment(at) if at is not None else None)

    def history(self, at: str | None) -> Iterator[dict[str, Any]]:
        """Yield what the log says for people, an entry an event that has a line."""
        upto = parse_moment(at) if at is not None else None
        for event, state in self.log.steps(upto=upto):
            text = message(event, state)
            if text is not None:
                yield {
                    "version": event.version,
                    "occurred_at": event.occurred_at,
                    "recorded_at": event.recorded_at,
                    "utc_offset": event.utc_offset,
                    "actor": f"{event.actor.kind}:{event.actor.name}",
                    "stage": event.data.get("stage"),
                    "message": text,
                }


def settings_of(context: typer.Context) -> Settings:
    """Return the options of every command."""
    settings = context.find_root().obj
    return settings if isinstance(settings, Settings) else Settings()


@contextmanager
def reading(context: typer.Context) -> Iterator[Reading]:
    """Open the workflow for reading: nothing is written, no lock is taken."""
    settings = settings_of(context)
    root, config = open_root(settings.start, settings.database_url, settings.journal)
    store = _open(root, read_only=True)
    try:
        yield Reading(root, config, WorkflowLog(store, config.stream, root.path), Output(settings))
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
    store = _open(root, read_only=dry_run)
    try:
        service = Service(root, WorkflowLog(store, config.stream, root.path), actor)
        if not (dry_run or anywhere):
            service.settle_place(settings.root_is)
        yield service, Output(settings)
    finally:
        store.close()


def _open(root: Root, *, read_only: bool) -> EventStore:
    return open_store(
        root.database,
        schema=SCHEMA,
        clock=system_clock,
        read_only=read_only,
        journal=root.journal,
    )


def create(root: Root) -> EventStore:
    """Open the root's log for writing, made first where it is not there."""
    from migrations.upgrade import upgrade  # Alembic is only loaded here

    upgrade(root.database)
    return _open(root, read_only=False)


@contextmanager
def engine(context: typer.Context, dry_run: bool = False) -> Iterator[tuple[Jobs, Output]]:
    """Open the workflow with its job runner."""
    from reconciler.dpdisp import DPDispatcherRunner
    from reconciler.jobs import Jobs

    with writing(context, dry_run) as (service, output):
        yield Jobs(service, DPDispatcherRunner(), say, tell_progress), output


def tell_progress(outcome: Outcome) -> None:
    """Say on stderr what was just recorded, as the log says it."""
    for event in outcome.events:
        text = message(event, outcome.state)
        if text is not None:
            say(f"  {text}")


def newest_attempt(context: typer.Context, stage: str) -> str | None:
    """Return the id of the stage's newest attempt."""
    with reading(context) as workflow:
        attempt = workflow.state().stage(stage).attempt
        return attempt.id if attempt is not None else None
