"""Import a workflow whose files were kept by hand.

The import creates a workflow folder with the events, copies of the imported files, and the files
that wfctl generates.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eventstore.event import Actor
from eventstore.store import EventStore
from extensions.adoption.findings import (
    Fields,
    StateFindings,
    find_log_problems,
    find_time_problems,
    format_short_json,
)
from extensions.adoption.state_file import StateFile
from extensions.adoption.typed_time import parse_time
from extensions.adoption.versions import (
    KINDS,
    LOG,
    STATE,
    ImportFinding,
    LogEntry,
    Sources,
    SourceVersion,
    count_common_entries,
    group_repeated_polls,
)
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from lifecycle.words.document import (
    DEFINITIONAL,
    STAGE_FIELDS,
    collect_number_spellings,
    escape_pointer_key,
    record_key_order,
)
from service.errors import RootExists
from service.root.atomic_files import Clock, sync_folder, utc_text, write_whole
from service.root.folder_entries import exists
from service.root.paths_within_root import join_normalized_path
from service.root.root import Config, Root, read_identity
from service.writing.initialise import (
    IMPORTED,
    build_files_recorded_event,
    make_root,
    remember_state_file,
    require_new_stream,
    require_no_workflow,
)
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Outcome, Service, planned_state

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


#: Names of the stage fields that have no value before the first run. They are removed from the
#: first imported state, because the history starts before any run.
_NOTHING_YET = frozenset(STAGE_FIELDS[STAGE_FIELDS.index("started_at") :])


def plan_history(
    sources: Sources, findings: Sequence[ImportFinding], now: str, **facts: Any
) -> Planned:
    """Return the events of an import, each with its UTC time.

    The first event creates the workflow in its initial state. For each imported version, the next
    events add its new log lines and its state. The last event therefore contains the state on disk.
    No time is later than ``now``. ``facts`` are additional fields of the first event,
    ``workflow.imported``.
    """
    first, last = sources.versions[0].state.document, sources.last
    created = parse_time(first.get("created") or "", sources.zone)
    began = created.moment if created is not None else now
    told = list(_iterate_version_events(sources, began, now))
    offset = sources.zone.tzname(None) if sources.zone is not None else "local"
    source: dict[str, Any] = {
        "path": str(sources.folder),
        "times_without_offset": offset,
        "files": [_describe_content(STATE, last.state.content), _describe_content(LOG, last.log)],
        "commits": [v.commit for v in sources.versions if v.commit is not None],
    }
    beginning = p.WorkflowImported(
        document=_build_initial_document(first),
        layout=record_key_order(first),
        events=len(told) + 1,
        source=source,
        findings=[finding.to_dict() for finding in findings],
        proposed=facts.get("consent") != "trust",
        **facts,
    )
    return ((beginning, min([began, *(at for _, at in told)])), *told)


def _build_initial_document(document: dict[str, Any]) -> dict[str, Any]:
    new = deepcopy(document)
    new.pop("workflow_status", None)
    new["amendments"] = []
    for stage in new["stages"]:
        stage["status"] = "pending"
        for field in _NOTHING_YET & stage.keys():
            del stage[field]
    return new


def _describe_content(name: str, content: bytes) -> dict[str, Any]:
    return {"path": name, "size": len(content), "sha256": sha256(content).hexdigest()}


def _iterate_version_events(
    sources: Sources, latest: str, now: str
) -> Iterator[tuple[Payload, str]]:
    """Yield the events of each imported version, with their times.

    ``latest`` is the start time of the workflow. An event whose own time is unknown gets the latest
    time before it.
    """
    for version, start, kept in _count_new_and_kept_entries(sources.versions):
        lasting, gone = version.entries[start:kept], version.entries[max(start, kept) :]
        for entries, in_file in ((lasting, True), (gone, False)):
            for run in group_repeated_polls(entries):
                latest = run[0].time.moment if run[0].time is not None else latest
                yield _build_line_event(run, version, kept=in_file), min(latest, now)
        # The state file contains its own time. The time of its event must still not precede the log
        # events that led to this state.
        updated = parse_time(version.state.document.get("updated") or "", sources.zone)
        at = max(latest, updated.moment) if updated is not None else latest
        yield _build_state_event(version, sources), min(at, now)


def _count_new_and_kept_entries(
    versions: Sequence[SourceVersion],
) -> list[tuple[SourceVersion, int, int]]:
    shared = [
        count_common_entries(before.entries, now.entries) for before, now in pairwise(versions)
    ]
    kept = [len(versions[-1].entries)]
    for common in reversed(shared):
        kept.insert(0, min(common, kept[0]))
    return list(zip(versions, [0, *shared], kept, strict=True))


def _build_line_event(
    run: Sequence[LogEntry], version: SourceVersion, *, kept: bool
) -> p.LineImported:
    first, raw = run[0], [line for entry in run for line in entry.raw]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        lines = [line.decode() for line in raw]
    except UnicodeDecodeError:
        lines, encoding = [b64encode(line).decode() for line in raw], "base64"
    return p.LineImported(
        raw=lines,
        encoding=encoding,
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


def _build_state_event(version: SourceVersion, sources: Sources) -> p.StateImported:
    document = version.state.document
    source = {
        **_describe_content(STATE, version.state.content),
        "file": STATE,
        "commit": version.commit,
        "known_at": version.known_at,
        "root": str(sources.folder),
    }
    spelling = collect_number_spellings(version.state.content.decode("utf-8-sig"))
    layout = record_key_order(document)
    return p.StateImported(document=document, layout=layout, spelling=spelling, source=source)


_OF_WORKFLOW = ("version", "experiment_design", "workflow_plan", "default_backend")
Change = tuple[str, str, str | None]
"""A JSON pointer in the newer version, what changed there, and the stage, if any."""


def _iterate_changes(before: StateFile, now: StateFile) -> Iterator[Change]:
    """Yield the changes between two state files that no new amendment explains."""
    known = {record["id"] for record in before.document.get("amendments") or []}
    amended = [r for r in now.document.get("amendments") or [] if r["id"] not in known]
    for field in () if amended else _OF_WORKFLOW:
        yield from _iterate_field_change(
            f"/{field}", field, before.document, now.document, field, None
        )
    if not any("backend_profiles" in (record.get("changes") or {}) for record in amended):
        old, new = (state.document.get("backend_profiles") or {} for state in (before, now))
        yield from _changed_keys("/backend_profiles", "backend_profiles", old, new, None)
    yield from _changed_stages(before, now, amended)


def _changed_stages(before: StateFile, now: StateFile, amended: list[Fields]) -> Iterator[Change]:
    old = {stage["id"]: stage for stage in before.stages}
    new = {stage["id"]: stage for stage in now.stages}
    for id_, stage in old.items():
        if id_ not in new:
            yield "/stages", f"{id_} removed ({stage.get('name')})", id_
    for index, stage in enumerate(now.stages):
        id_ = stage["id"]
        if id_ in old:
            yield from _iterate_stage_changes(f"/stages/{index}", old[id_], stage, amended)
        elif not any(record.get("type") == "stage_insert" for record in amended):
            yield f"/stages/{index}", f"{id_} added ({stage.get('name')})", id_


def _iterate_stage_changes(
    place: str, old: Fields, new: Fields, amended: list[Fields]
) -> Iterator[Change]:
    for field in (name for name in dict.fromkeys([*old, *new]) if name in DEFINITIONAL):
        if any(_is_field_amended(record, new["id"], field) for record in amended):
            continue
        if field != "parameters":
            yield from _iterate_field_change(f"{place}/{field}", field, old, new, field, new["id"])
            continue
        values = old.get(field) or {}, new.get(field) or {}
        yield from _changed_keys(f"{place}/{field}", field, *values, new["id"])


def _is_field_amended(record: Fields, stage: str, field: str) -> bool:
    if record.get("stage_id") not in (None, stage) and field != "depends_on":
        return False
    return field in (record.get("changes") or {}) or record.get("type") == "stage_insert"


def _changed_keys(
    pointer: str, name: str, old: Fields, new: Fields, stage: str | None
) -> Iterator[Change]:
    for key in dict.fromkeys([*old, *new]):
        yield from _iterate_field_change(
            f"{pointer}/{escape_pointer_key(key)}", f"{name}.{key}", old, new, key, stage
        )


def _iterate_field_change(
    pointer: str, name: str, old: Fields, new: Fields, key: str, stage: str | None
) -> Iterator[Change]:
    if (key in old, old.get(key)) != (key in new, new.get(key)):
        before, now = (
            format_short_json(values[key]) if key in values else "(none)" for values in (old, new)
        )
        yield pointer, f"{name}: {before} -> {now}", stage


_REPORT = re.compile(r"\bReport: (\S+)")


def _find_missing_named_files(version: SourceVersion, folder: Path) -> Iterator[ImportFinding]:
    """Yield a finding for each named output, report or machine file missing on disk."""
    state = version.state
    for index, stage in enumerate(state.stages):
        named = stage.get("outputs") or [] if stage.get("status") == "completed" else []
        for number, output in enumerate(named):
            if not _is_there(folder, output):
                line = state.line(f"/stages/{index}/outputs/{number}")
                yield ImportFinding("missing_output", STATE, line, output, stage["id"])
    reports = [(entry, _REPORT.search(entry.text)) for entry in version.entries]
    ends = [(entry, name[1]) for entry, name in reports if name and entry.workflow_completed]
    # Check only the last report, because a later run may have replaced an earlier report.
    for entry, name in ends[-1:]:
        if not _is_there(folder, name):
            yield ImportFinding("missing_report", LOG, entry.line, name)
    for key, profile in (state.document.get("backend_profiles") or {}).items():
        path = profile.get("config_path")
        if isinstance(path, str) and path and not exists(join_normalized_path(folder, path)):
            line = state.line(f"/backend_profiles/{escape_pointer_key(key)}/config_path")
            yield ImportFinding("missing_machine", STATE, line, path)


def _is_there(folder: Path, path: str) -> bool:
    return exists(folder / path)


def collect_findings(sources: Sources) -> list[ImportFinding]:
    """Return all problems found in the imported files, the most important kind first."""
    versions = sources.versions
    found = list(sources.unreadable)
    for name in dict.fromkeys(version.workflow for version in sources.foreign):
        own = [version for version in sources.foreign if version.workflow == name]
        place, commit = own[0].state.line("/workflow_id"), own[0].commit
        other = ImportFinding("other_workflow", STATE, place, name, commit=commit, count=len(own))
        found.append(other)
    for number, version in enumerate(versions):
        before = versions[number - 1] if number else None
        here = _compare_versions(before, version)
        if number + 1 == len(versions) or _is_rewritten(version, versions[number + 1]):
            here += find_log_problems(version) + StateFindings(version, sources.zone).all()
        found += _sort_findings(here, version)
    found += _sort_findings(
        list(_find_missing_named_files(sources.last, sources.folder)), sources.last
    )
    order = list(KINDS)
    return sorted(found, key=lambda finding: order.index(finding.kind))


def _compare_versions(before: SourceVersion | None, now: SourceVersion) -> list[ImportFinding]:
    """Return the findings that appear with a new version of the files.

    They concern the times of new log entries, rewritten log lines, and definitions that changed
    without an amendment.
    """
    start = count_common_entries(before.entries, now.entries) if before is not None else 0
    found = list(find_time_problems(now.entries[start:], now.known_at))
    if before is None:
        return found
    created = [version.state.document.get("created") for version in (before, now)]
    # A new creation time, together with a replaced log or files that were missing for a while,
    # means that the workflow was started again. Its changes are then not compared with the old
    # workflow.
    if created[0] != created[1] and (now.after_gap or start == 0):
        evidence = f"created {created[0]}, then {created[1]}; {len(before.entries)} entries before"
        return [*found, ImportFinding("begun_anew", STATE, now.state.line("/created"), evidence)]
    if _is_rewritten(before, now):
        gone = before.entries[start:]
        first = now.entries[start].line if start < len(now.entries) else 1
        evidence = f"{len(gone)} entries, the first: {gone[0].text:.100}"
        found.append(ImportFinding("rewritten_log", LOG, first, evidence, count=len(gone)))
    changes = _iterate_changes(before.state, now.state)
    return found + [
        ImportFinding("unamended_change", STATE, now.state.line(pointer), evidence, stage)
        for pointer, evidence, stage in changes
    ]


def _is_rewritten(before: SourceVersion, now: SourceVersion) -> bool:
    return count_common_entries(before.entries, now.entries) < len(before.entries)


def _sort_findings(found: Sequence[ImportFinding], version: SourceVersion) -> list[ImportFinding]:
    placed = [replace(finding, commit=finding.commit or version.commit) for finding in found]
    return sorted(placed, key=lambda f: (f.file, f.line))


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: sources, findings, and recorded or planned events."""

    sources: Sources
    findings: tuple[ImportFinding, ...]
    outcome: Outcome


def adopt_workflow(
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
    """Import the sources into ``root``, or complete an interrupted import.

    ``rests_of`` returns, for each stage with a running attempt, the digests of its inputs.
    ``facts`` are additional fields of the event ``workflow.imported``. Raises `RootExists` if
    ``root`` already has a workflow, or a state or log file other than the imported ones.
    """
    findings = tuple(collect_findings(sources))
    is_here = root.path.resolve() == sources.folder.resolve()
    has_files = any((root.path / name).exists() for name in (STATE, LOG))
    if has_files and not (is_here or root.config_file.exists()):
        raise RootExists(root.path, None)
    place = read_identity(root.path) if root.path.exists() else {}
    now = utc_text(clock())
    planned = plan_history(sources, findings, now, root=place, **facts)
    if is_here:
        # Record input files only if the workflow is imported in place. In any other folder, these
        # files are missing.
        state = planned_state(planned)
        rests = dict(rests_of(root.path, state))
        planned = (*planned, *build_files_recorded_event(root.path, state, now, attempts=rests))
    workflow = str(sources.last.state.document["workflow_id"])
    if options.dry_run:
        require_no_workflow(root)
        require_new_stream(Config(workflow).stream, options)
        return ImportResult(sources, findings, Outcome((), planned, planned_state(planned)))

    def record(service: Service) -> Outcome:
        first = service.first_answer(options)
        if first is not None:
            return first
        require_new_stream(service.log.stream, options)
        _copy_imported_files(service, sources)
        outcome = service.acting_as("import").record_imported_history(planned, options)
        if outcome.state.consent == "signature":
            service.log.approvals.pin(outcome.state)
        return outcome

    outcome = make_root(
        root, workflow, record, connect=connect, actor=actor, clock=clock, options=options
    )
    return ImportResult(sources, findings, outcome)


def _copy_imported_files(service: Service, sources: Sources) -> None:
    """Copy the imported files unchanged to ``.wfctl/imported/``.

    wfctl then takes over the state file and the log in the folder as its own generated files.
    """
    root, last = service.root, sources.last
    folder = root.folder / IMPORTED
    folder.mkdir(exist_ok=True)
    sync_folder(root.folder)
    write_whole(folder / STATE, last.state.content)
    if last.has_log:
        write_whole(folder / LOG, last.log)
    if not (root.path / LOG).exists():
        write_whole(root.path / LOG, last.log)
    if (root.path / STATE).exists():
        remember_state_file(service, last.state.content)
