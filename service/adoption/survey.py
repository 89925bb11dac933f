"""What an import finds in the files of somebody else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lifecycle.words.document import DEFINITIONAL
from service.adoption.findings import StateFindings, log_findings, shown, time_findings
from service.adoption.state_file import StateFile
from service.adoption.versions import (
    KINDS,
    LOG,
    STATE,
    ImportFinding,
    Sources,
    Version,
    common_start,
)
from service.root.safe_open import seen_from

_OF_WORKFLOW = ("version", "experiment_design", "workflow_plan", "default_backend")
Fields = dict[str, Any]


def change_findings(before: StateFile, now: StateFile) -> list[ImportFinding]:
    """Return what changed from ``before`` to ``now`` without an amendment."""
    return [
        ImportFinding("unamended_change", STATE, now.line(pointer), evidence, stage)
        for pointer, evidence, stage in (*_workflow(before, now), *_stages(before, now))
    ]


def _new_amendments(before: StateFile, now: StateFile) -> list[Fields]:
    known = {record["id"] for record in before.document.get("amendments") or []}
    return [r for r in now.document.get("amendments") or [] if r["id"] not in known]


Change = tuple[str, str, str | None]
"""JSON pointer in the newer version, what changed, the stage."""


def _workflow(before: StateFile, now: StateFile) -> Iterator[Change]:
    amended = _new_amendments(before, now)
    if not amended:
        for field in _OF_WORKFLOW:
            yield from _changed(f"/{field}", field, before.document, now.document, field, None)
    if not any("backend_profiles" in (record.get("changes") or {}) for record in amended):
        old, new = (s.document.get("backend_profiles") or {} for s in (before, now))
        for name in dict.fromkeys([*old, *new]):
            place = f"backend_profiles.{name}"
            yield from _changed(f"/backend_profiles/{name}", place, old, new, name, None)


def _stages(before: StateFile, now: StateFile) -> Iterator[Change]:
    amended = _new_amendments(before, now)
    old = {stage["id"]: stage for stage in before.stages}
    new = {stage["id"]: stage for stage in now.stages}
    for id_, stage in old.items():
        if id_ not in new:
            yield "/stages", f"{id_} removed ({stage.get('name')})", id_
    for index, stage in enumerate(now.stages):
        id_ = stage["id"]
        if id_ in old:
            yield from _stage(f"/stages/{index}", old[id_], stage, amended)
        elif not any(record.get("type") == "stage_insert" for record in amended):
            yield f"/stages/{index}", f"{id_} added ({stage.get('name')})", id_


def _stage(place: str, old: Fields, new: Fields, amended: list[Fields]) -> Iterator[Change]:
    for field in (f for f in (*old, *(k for k in new if k not in old)) if f in DEFINITIONAL):
        if any(_covers(record, new["id"], field) for record in amended):
            continue
        if field != "parameters":
            yield from _changed(f"{place}/{field}", field, old, new, field, new["id"])
            continue
        before, now = old.get(field) or {}, new.get(field) or {}
        for name in dict.fromkeys([*before, *now]):
            pointer = f"{place}/parameters/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _changed(pointer, f"parameters.{name}", before, now, name, new["id"])


def _covers(record: Fields, stage: str, field: str) -> bool:
    if record.get("stage_id") not in (None, stage) and field != "depends_on":
        return False
    return field in (record.get("changes") or {}) or record.get("type") == "stage_insert"


def _changed(
    pointer: str, name: str, old: Fields, new: Fields, key: str, stage: str | None
) -> Iterator[Change]:
    before = shown(old[key]) if key in old else "(none)"
    now = shown(new[key]) if key in new else "(none)"
    if (key in old, old.get(key)) != (key in new, new.get(key)):
        yield pointer, f"{name}: {before} -> {now}", stage


_REPORT = re.compile(r"\bReport: (\S+)")


def disk_findings(version: Version, folder: Path) -> Iterator[ImportFinding]:
    """Yield the outputs, the report and the machine files that are named and not there."""
    yield from _outputs(version, folder)
    yield from _report(version, folder)
    yield from _machines(version, folder)


def _outputs(version: Version, folder: Path) -> Iterator[ImportFinding]:
    for index, stage in enumerate(version.state.stages):
        if stage.get("status") != "completed":
            continue
        for number, output in enumerate(stage.get("outputs") or []):
            if not _is_there(folder, output):
                line = version.state.line(f"/stages/{index}/outputs/{number}")
                yield ImportFinding("missing_output", STATE, line, output, stage["id"])


def _report(version: Version, folder: Path) -> Iterator[ImportFinding]:
    """The last report alone: one of an earlier end may have made room for it."""
    named = [(entry, _REPORT.search(entry.text)) for entry in version.entries]
    found = [(entry, name[1]) for entry, name in named if name and entry.workflow_completed]
    for entry, name in found[-1:]:
        if not _is_there(folder, name):
            yield ImportFinding("missing_report", LOG, entry.line, name)


def _machines(version: Version, folder: Path) -> Iterator[ImportFinding]:
    profiles = version.state.document.get("backend_profiles") or {}
    for name, profile in profiles.items():
        path = profile.get("config_path") if isinstance(profile, dict) else None
        if isinstance(path, str) and path and not seen_from(folder, path).exists():
            key = name.replace("~", "~0").replace("/", "~1")
            line = version.state.line(f"/backend_profiles/{key}/config_path")
            yield ImportFinding("missing_machine", STATE, line, path)


def _is_there(folder: Path, path: str) -> bool:
    return os.path.exists(folder / path)  # noqa: PTH110 - a path may be too long to look


_ORDER = {kind: place for place, kind in enumerate(KINDS)}


def survey(sources: Sources) -> list[ImportFinding]:
    """Return every finding, those that matter most first, then by version and place."""
    versions = sources.versions
    found = [*sources.unreadable, *_foreign(sources.foreign)]
    for number, version in enumerate(versions):
        before = versions[number - 1] if number else None
        here = _since(before, version)
        if number + 1 == len(versions) or _is_rewritten(version, versions[number + 1]):
            here += log_findings(version) + StateFindings(version, sources.zone).all()
        found += _sorted(here, version)
    found += _sorted(list(disk_findings(sources.last, sources.folder)), sources.last)
    return sorted(found, key=lambda finding: _ORDER[finding.kind])


def _foreign(versions: Sequence[Version]) -> Iterator[ImportFinding]:
    for name in dict.fromkeys(version.workflow for version in versions):
        own = [version for version in versions if version.workflow == name]
        line = own[0].state.line("/workflow_id")
        yield ImportFinding(
            "other_workflow", STATE, line, name, commit=own[0].commit, count=len(own)
        )


def _since(before: Version | None, now: Version) -> list[ImportFinding]:
    """Return what is new in a version: its lines' times, its changes of definitions."""
    if before is None:
        return time_findings(now.entries, now.known_at)
    start = common_start(before.entries, now.entries)
    found = time_findings(now.entries[start:], now.known_at)
    if _is_begun_anew(before, now):
        created = [version.state.document.get("created") for version in (before, now)]
        evidence = f"created {created[0]}, then {created[1]}; {len(before.entries)} entries before"
        return [*found, ImportFinding("begun_anew", STATE, now.state.line("/created"), evidence)]
    if _is_rewritten(before, now):
        gone = before.entries[start:]
        first = now.entries[start].line if start < len(now.entries) else 1
        evidence = f"{len(gone)} entries, the first: {gone[0].text:.100}"
        found.append(ImportFinding("rewritten_log", LOG, first, evidence, count=len(gone)))
    return found + change_findings(before.state, now.state)


def _is_begun_anew(before: Version, now: Version) -> bool:
    """Whether it is another life: nothing of the log is left, or nothing was for a while."""
    created = [version.state.document.get("created") for version in (before, now)]
    if created[0] == created[1]:
        return False
    return now.after_gap or common_start(before.entries, now.entries) == 0


def _is_rewritten(before: Version, now: Version) -> bool:
    return common_start(before.entries, now.entries) < len(before.entries)


def _sorted(found: Sequence[ImportFinding], version: Version) -> list[ImportFinding]:
    placed = [replace(finding, commit=finding.commit or version.commit) for finding in found]
    return sorted(placed, key=lambda f: (f.file, f.line))
