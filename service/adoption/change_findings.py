"""Definitions that changed between two versions of a state, and no amendment says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lifecycle.words.document import DEFINITIONAL
from service.adoption.finding import ImportFinding
from service.adoption.state_file import StateFile
from service.adoption.state_findings import shown
from service.adoption.versions import STATE

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
