"""Making a root of somebody else's workflow: versions as events, sources kept, files written."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.event import Actor
from eventstore.store import EventStore
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from lifecycle.words.document import STAGE_FIELDS, layout_of, spelling_of
from service.adoption.state_file import parse_time
from service.adoption.survey import survey
from service.adoption.versions import (
    LOG,
    STATE,
    ImportFinding,
    LogEntry,
    Sources,
    Version,
    common_start,
    runs,
)
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

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


#: What a stage has when nothing has happened to it yet.
_NOTHING_YET = frozenset(STAGE_FIELDS[STAGE_FIELDS.index("started_at") :])


def history(sources: Sources, findings: Sequence[ImportFinding], now: str, **facts: Any) -> Planned:
    """Return the events of an import, each with when it was so (UTC, the log's form).

    The first creates the workflow as it was before anything was said of it; then each version
    comes as its new lines and the state it held, so that the last event is the state on disk.
    No time is later than ``now``. ``facts`` are further fields of ``workflow.imported``.
    """
    told = list(_versions(sources, now))
    first = sources.versions[0].state.document
    begin = min([_created(sources, now), *(at for _, at in told)])
    beginning = p.WorkflowImported(
        document=_before_anything(first),
        layout=layout_of(first),
        events=len(told) + 1,
        source=_source(sources),
        findings=[finding.to_dict() for finding in findings],
        proposed=facts.get("consent") != "trust",
        **facts,
    )
    return ((beginning, begin), *told)


def _before_anything(document: dict[str, Any]) -> dict[str, Any]:
    new = deepcopy(document)
    new.pop("workflow_status", None)
    new["amendments"] = []
    for stage in new["stages"]:
        stage["status"] = "pending"
        for field in _NOTHING_YET & stage.keys():
            del stage[field]
    return new


def _source(sources: Sources) -> dict[str, Any]:
    last = sources.last
    offset = sources.zone.tzname(None) if sources.zone is not None else "local"
    return {
        "path": str(sources.folder),
        "times_without_offset": offset,
        "files": [_digest(STATE, last.state.content), _digest(LOG, last.log)],
        "commits": [v.commit for v in sources.versions if v.commit is not None],
    }


def _digest(name: str, content: bytes) -> dict[str, Any]:
    return {"path": name, "size": len(content), "sha256": sha256(content).hexdigest()}


def _created(sources: Sources, now: str) -> str:
    created = parse_time(sources.versions[0].state.document.get("created") or "", sources.zone)
    return created.moment if created is not None else now


def _versions(sources: Sources, now: str) -> Iterator[tuple[Payload, str]]:
    latest = _created(sources, now)
    for version, start, kept in _new_and_kept(sources.versions):
        lasting, gone = version.entries[start:kept], version.entries[max(start, kept) :]
        for entries, in_file in ((lasting, True), (gone, False)):
            for run in runs(entries):
                latest = run[0].time.moment if run[0].time is not None else latest
                yield _line(run, version, kept=in_file), min(latest, now)
        yield _state(version, sources), min(_state_time(version, sources, latest), now)


def _new_and_kept(versions: Sequence[Version]) -> list[tuple[Version, int, int]]:
    shared = [common_start(before.entries, now.entries) for before, now in pairwise(versions)]
    kept = [len(versions[-1].entries)]
    for common in reversed(shared):
        kept.insert(0, min(common, kept[0]))
    return list(zip(versions, [0, *shared], kept, strict=True))


def _line(run: Sequence[LogEntry], version: Version, *, kept: bool) -> p.LineImported:
    first, raw = run[0], [line for entry in run for line in entry.raw]
    is_text = all(_is_text(line) for line in raw)
    return p.LineImported(
        raw=[line.decode() if is_text else b64encode(line).decode() for line in raw],
        encoding="utf-8" if is_text else "base64",
        ended=run[-1].ended,
        text=first.text,
        typed_at=first.time.text if first.time is not None else None,
        line=first.line,
        count=len(run),
        kept=kept,
        commit=version.commit,
        stage=first.stage,
        statuses=[status.value for status in first.statuses],
        retry=first.retry,
        session=first.session,
        workflow_completed=first.workflow_completed,
    )


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _state(version: Version, sources: Sources) -> p.StateImported:
    document = version.state.document
    source = {
        **_digest(STATE, version.state.content),
        "file": STATE,
        "commit": version.commit,
        "known_at": version.known_at,
        "root": str(sources.folder),
    }
    spelling = spelling_of(version.state.content.decode("utf-8-sig"))
    layout = layout_of(document)
    return p.StateImported(document=document, layout=layout, spelling=spelling, source=source)


def _state_time(version: Version, sources: Sources, latest: str) -> str:
    """Return when a state was so: by its own word, but not before what led to it."""
    updated = parse_time(version.state.document.get("updated") or "", sources.zone)
    return max(latest, updated.moment) if updated is not None else latest


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
