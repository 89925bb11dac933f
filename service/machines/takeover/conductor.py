"""A track's ``metadata.json`` taken over, with all that real ones hold beside the format."""

from __future__ import annotations

from typing import Any

from projections.machines.conductor import LOOP, OWN
from service.machines.definitions import shipped
from service.machines.takeover.found import Document, Takeover, visit

#: What real files call things, and what the protocol calls them.
_STEPS = {"EVALUATE": "EVALUATE_EXECUTION", "COMPLETED": "COMPLETE", "DONE": "COMPLETE"}
_STATUSES = {
    "COMPLETED": "PASSED",
    "COMPLETE": "PASSED",
    "DONE": "PASSED",
    "PENDING": "NOT_STARTED",
    "WAITING_FOR_USER": "BLOCKED",
    "RUNNING": "IN_PROGRESS",
}
_START = "PLAN"
_TIMES = ("started_at", "completed_at", "last_updated")
_REQUIRED = ("status", "started_at", "agent", "last_updated")


def take_over(source: Document, id_: str) -> Takeover:
    """Return the machine of a track; unknown steps, statuses and fields are kept and reported."""
    found = Takeover(str(source.get("track_id") or id_), shipped("conductor"), _START)
    loop = source.get(OWN)
    if not isinstance(loop, dict):
        found.say("missing", OWN, loop, "no loop_state; begins at PLAN")
        loop = {}
    found.document = {**source, OWN: loop}
    found.created = found.time("created_at", source.get("created_at") or source.get("created"))
    found.phase = _step(found, loop)
    found.status = _status(found, f"{OWN}.step_status", loop.get("step_status"))
    _count(found, loop)
    _visits(found, loop)
    _look_at_fields(found, source)
    return found


def _step(found: Takeover, loop: Document) -> str:
    step = loop.get("current_step")
    if isinstance(step, str) and step in found.definition.phases and step != "BLOCKED":
        return step
    mapped = _STEPS.get(str(step)) or _last_known(found, loop)
    found.say("unknown_step", f"{OWN}.current_step", step, f"taken for {mapped}")
    return mapped


def _last_known(found: Takeover, loop: Document) -> str:
    """Return the last step that has a checkpoint, in the order of the protocol."""
    checkpoints = loop.get("checkpoints")
    named = checkpoints if isinstance(checkpoints, dict) else {}
    known = [step for step in found.definition.phases if step in named and step != "BLOCKED"]
    return known[-1] if known else _START


def _status(found: Takeover, place: str, status: Any) -> str:
    values = found.definition.statuses.values if found.definition.statuses is not None else []
    if status in values:
        return str(status)
    mapped = _STATUSES.get(str(status), "NOT_STARTED")
    kind = "missing" if status is None else "unknown_status"
    found.say(kind, place, status, f"taken for {mapped}")
    return mapped


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
    known = {"version", "track_id", "name", "type", "status", "blockers", OWN}
    for key in source:
        if key not in known:
            found.say("unknown_field", key, None, "kept as found")
    blockers = source.get("blockers")
    if isinstance(blockers, list) and any(isinstance(one, str) for one in blockers):
        found.say("unexpected_value", "blockers", None, "blockers as text; kept as found")
