"""Machines that other programs left, by their protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lifecycle.machines.definition import CANCELLED
from lifecycle.machines.machine import Document
from projections.machines.documents import LOOP, OWN
from service.machines.completing import limited, shipped
from service.machines.takeover.found import Sayings, Takeover, visit
from service.machines.writers.conductor import ALIASES

_START = "PLAN"
#: What the protocol's own writers call a step.
_ALIASES = {**ALIASES, "NOT_STARTED": _START}
_TIMES = ("started_at", "completed_at", "last_updated")
_REQUIRED = ("status", "started_at", "agent", "last_updated")
#: Fields that the protocol's own writers write beside the loop.
_KNOWN = frozenset(
    {
        *("version", "track_id", "name", "type", "status", "blockers", OWN, "created_at"),
        *("updated_at", "superpower_enhanced", "enrich", "business_sync_required"),
        *("description", "priority", "depends_on", "sprint_order"),
    }
)


def take_over_conductor(
    source: Document, folder: str, said: Sayings, root: Path, *, is_track: bool
) -> Takeover:
    """Return the machine of a track; unknown fields are kept and reported.

    ``folder`` is the name of the file's folder: that of the track, if the file ``is_track``.
    ``root`` may have limits of its own.
    """
    named = source.get("track_id")
    id_ = folder if is_track else str(named or folder)
    known = limited(said.definition or shipped("conductor"), root)
    found = Takeover(id_, known, _START, said)
    if named is not None and named != id_:
        found.say("track_id", "track_id", named, f"the track is {id_}, as its folder says")
    loop = source.get(OWN)
    if not isinstance(loop, dict):
        found.say("missing", OWN, loop, "no loop_state; begins at PLAN")
        loop = {}
    found.document = {**source, OWN: loop}
    found.created = found.time("created_at", source.get("created_at") or source.get("created"))
    if loop or said.at is not None:
        found.place(f"{OWN}.current_step", loop.get("current_step"), _ALIASES)
    found.status = _status(found, f"{OWN}.step_status", loop.get("step_status"))
    _count(found, loop)
    _visits(found, loop)
    _look_at_fields(found, source)
    return found


def _status(found: Takeover, place: str, status: Any) -> str:
    known = found.definition.statuses
    if status is None:
        found.say("missing", place, status, "taken for NOT_STARTED")
        return "NOT_STARTED"
    return found.name(place, status, known.values if known is not None else [], "NOT_STARTED")


def _count(found: Takeover, loop: Document) -> None:
    count = loop.get("fix_cycle_count", 0)
    limit = found.definition.limit_of(LOOP, found.document)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= limit:
        found.say("unexpected_value", f"{OWN}.fix_cycle_count", count, f"expected 0 to {limit}")
        count = limit if isinstance(count, int) and count > limit else 0
    if count:
        found.counts[LOOP] = count


def _visits(found: Takeover, loop: Document) -> None:
    checkpoints = loop.get("checkpoints")
    if not isinstance(checkpoints, dict):
        found.say("missing", f"{OWN}.checkpoints", checkpoints, "no checkpoints")
        checkpoints = {}
    begun = found.time(f"{OWN}.step_started_at", loop.get("step_started_at"))
    for step, checkpoint in checkpoints.items():
        place = f"{OWN}.checkpoints.{step}"
        if step not in found.definition.phases:
            found.say("unknown_step", place, None, "kept as found")
        elif not isinstance(checkpoint, dict):
            found.say("unexpected_value", place, checkpoint, "expected an object; kept as found")
        else:
            found.visits.append(_visit(found, place, step, checkpoint, begun))
    if all(one["phase"] != found.phase for one in found.visits):
        entered = begun or found.created or ""
        found.visits.append(visit(found.phase, entered, found.status, started_at=begun))


def _visit(
    found: Takeover, place: str, step: str, checkpoint: Document, begun: str | None
) -> Document:
    for name in _REQUIRED:
        if checkpoint.get(name) is None:
            found.say("missing", f"{place}.{name}", None, "a checkpoint should have it")
    times = {name: found.time(f"{place}.{name}", checkpoint.get(name)) for name in _TIMES}
    found.in_order(f"{place}.completed_at", times["started_at"], times["completed_at"])
    data = {k: v for k, v in checkpoint.items() if k not in (*_TIMES, "status")}
    return visit(
        step,
        times["started_at"] or begun or found.created or "",
        _status(found, f"{place}.status", checkpoint.get("status")),
        started_at=times["started_at"],
        completed_at=times["completed_at"],
        updated_at=times["last_updated"],
        data=data,
    )


def _look_at_fields(found: Takeover, source: Document) -> None:
    for key in source:
        if key not in _KNOWN:
            found.say("unknown_field", key, None, "kept as found")
    blockers = source.get("blockers")
    if isinstance(blockers, list) and any(isinstance(one, str) for one in blockers):
        found.say("unexpected_value", "blockers", None, "blockers as text; kept as found")


_OWN = frozenset(
    {
        "workflow_id",
        "started_at",
        "last_updated",
        "current_phase",
        "phase_status",
        "completed_phases",
        "user_checkpoints",
        "interruption_safe",
    }
)


def take_over_dotagent(source: Document, execution: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of the two files; ``execution`` is empty where there is none."""
    known = said.definition or shipped("dotagent")
    found = Takeover(str(source.get("workflow_id") or id_), known, known.initial, said)
    found.place("current_phase", source.get("current_phase"), {})
    found.status = _dotagent_status(found, source.get("phase_status"))
    if source.get("interruption_safe") is not True:
        value = source.get("interruption_safe")
        found.say("not_whole", "interruption_safe", value, "the file says that it was not whole")
    found.created = found.time("started_at", source.get("started_at"))
    found.document = _document(source, execution)
    found.see_fields({"execution"})
    _dotagent_visits(found, source)
    return found


def _dotagent_status(found: Takeover, status: Any) -> str:
    known = found.definition.statuses
    initial = known.initial if known is not None else "pending"
    if status is None:
        found.say("missing", "phase_status", status, f"taken for {initial}")
        return initial
    return found.name("phase_status", status, known.values if known is not None else [], initial)


def _document(source: Document, execution: Document) -> Document:
    document = {key: value for key, value in source.items() if key not in _OWN}
    rest = {key: value for key, value in execution.items() if key != "tasks"}
    if rest:
        document["execution"] = rest
    return {**document, "tasks": execution.get("tasks") or []}


def _dotagent_visits(found: Takeover, source: Document) -> None:
    order = list(found.definition.phases)
    entered = found.created or ""
    for index, done in enumerate(_objects(found, source, "completed_phases")):
        place = f"completed_phases[{index}]"
        if done.get("phase") not in order or done.get("phase") == found.phase:
            found.say("unknown_phase", place, done.get("phase"), "left out of the phases done")
            continue
        at = found.time(f"{place}.completed_at", done.get("completed_at")) or entered
        found.in_order(f"{place}.completed_at", entered, at)
        data = {"output": done["output"]} if isinstance(done.get("output"), str) else {}
        times = {"started_at": entered, "completed_at": at, "left_at": at}
        found.visits.append(visit(done["phase"], entered, "complete", **times, data=data))
        entered = at
    last = found.time("last_updated", source.get("last_updated"))
    started = entered if found.status != "pending" else None
    now = visit(found.phase, entered, found.status, started_at=started, updated_at=last)
    found.visits.append(now)
    found.given = [
        {"phase": str(one.get("phase")), "at": str(one.get("approved_at") or "")}
        for one in _objects(found, source, "user_checkpoints")
    ]


def _objects(found: Takeover, source: Document, key: str) -> list[Document]:
    listed = source.get(key) or []
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, dict):
            found.say("unexpected_value", key, item, "expected an object; left out")
    return [item for item in items if isinstance(item, dict)]


TYPES = ("feature", "debug", "refactor", "oneshot")
_EXARCHOS_OWN = frozenset(
    {"version", "featureId", "workflowType", "createdAt", "updatedAt", "phase"}
)


def take_over_exarchos(source: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of a state file; unknown fields are kept and reported."""
    type_ = source.get("workflowType")
    known = said.definition or shipped(
        said.meant.get(str(type_), type_ if type_ in TYPES else TYPES[0])
    )
    found = Takeover(str(source.get("featureId") or id_), known, known.initial, said)
    if said.definition is None:
        found.name("workflowType", type_, TYPES, TYPES[0])
    found.place("phase", source.get("phase"), {CANCELLED: CANCELLED})
    found.document = {key: value for key, value in source.items() if key not in _EXARCHOS_OWN}
    found.created = found.time("createdAt", source.get("createdAt"))
    found.see_fields({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [visit(found.phase, entered, None)]
    return found
