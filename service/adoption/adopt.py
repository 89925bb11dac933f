"""Making a root of somebody else's workflow: survey, keep the sources, record, write the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventstore.event import Actor
from eventstore.store import EventStore
from lifecycle.state.workflow import Workflow
from service.adoption.history import history
from service.adoption.survey import survey
from service.adoption.versions import LOG, STATE, ImportFinding, Sources
from service.errors import RootExists
from service.root.disk import Clock, sync_folder, utc_text, write_whole
from service.root.root import Config, Root
from service.writing.initialise import (
    IMPORTED,
    claim_state,
    expect_nothing,
    files_recorded,
    make_root,
    refuse_second,
)
from service.writing.report import identity
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Outcome, Service, planned_state


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import found, and what it recorded or would record."""

    sources: Sources
    findings: tuple[ImportFinding, ...]
    outcome: Outcome


def adopt(
    root: Root,
    sources: Sources,
    *,
    connect: Callable[[Root], EventStore],
    actor: Actor,
    clock: Clock,
    options: WriteOptions,
    rests_of: Callable[[Path, Workflow], Mapping[str, Any]],
    **facts: Any,
) -> ImportResult:
    """Make ``root`` the workflow of the sources; what an interrupted import left is taken up.

    ``rests_of`` says what attempts under way rest on, by stage. ``facts`` are further fields of
    ``workflow.imported``. Raises `RootExists` where a workflow or files of one are in ``root``
    already.
    """
    findings = tuple(survey(sources))
    _refuse_strangers(root, sources)
    place = identity(root.path) if root.path.exists() else {}
    planned = history(sources, findings, utc_text(clock()), root=place, **facts)
    planned = (*planned, *_files(root, sources, planned, rests_of, utc_text(clock())))
    workflow = str(sources.last.state.document["workflow_id"])
    if options.dry_run:
        refuse_second(root)
        expect_nothing(Config(workflow).stream, options)
        return ImportResult(sources, findings, Outcome((), planned, planned_state(planned)))

    def record(service: Service) -> Outcome:
        first = service.first_answer(options)
        if first is not None:
            return first
        expect_nothing(service.log.stream, options)
        _keep(root, sources)
        _claim_files(service, sources)
        outcome = service.acting_as("import").take_over(planned, options)
        if outcome.state.consent == "signature":
            service.log.approvals.pin(outcome.state)
        return outcome

    outcome = make_root(
        root, workflow, record, connect=connect, actor=actor, clock=clock, options=options
    )
    return ImportResult(sources, findings, outcome)


def _files(
    root: Root,
    sources: Sources,
    planned: Planned,
    rests_of: Callable[[Path, Workflow], Mapping[str, Any]],
    now: str,
) -> Planned:
    """Return the event of the files that the definition runs and attempts rest on, if any is here.

    In another folder than the imported one there are none of them.
    """
    if root.path.resolve() != sources.folder.resolve():
        return ()
    state = planned_state(planned)
    return files_recorded(root.path, state, now, attempts=dict(rests_of(root.path, state)))


def _refuse_strangers(root: Root, sources: Sources) -> None:
    if root.path.resolve() == sources.folder.resolve():
        return
    if not root.config_file.exists() and any((root.path / n).exists() for n in (STATE, LOG)):
        raise RootExists(root.path, None)


def _keep(root: Root, sources: Sources) -> None:
    """Keep the sources byte for byte under ``.wfctl/imported/``."""
    folder = root.folder / IMPORTED
    folder.mkdir(exist_ok=True)
    sync_folder(root.folder)
    write_whole(folder / STATE, sources.last.state.content)
    if sources.last.has_log:
        write_whole(folder / LOG, sources.last.log)


def _claim_files(service: Service, sources: Sources) -> None:
    """Let the files be gone on with: the log's lines are recorded, the state is none of drift."""
    root, content = service.root, sources.last.state.content
    if not (root.path / LOG).exists():
        write_whole(root.path / LOG, sources.last.log)
    if (root.path / STATE).exists():
        claim_state(service, content)
