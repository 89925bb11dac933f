"""``metadata.json``: a conductor track, with every field of others' kept as found."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.machine import Machine, Visit
from projections.times import utc_seconds

LOOP = "fix-cycle"
#: The part of the file that the engine writes.
OWN = "loop_state"
_UNKNOWN_AGENT = "unspecified"


def metadata(machine: Machine) -> dict[str, Any]:
    """Return the file's document."""
    document = dict(machine.document)
    found = document if "track_id" in document else {"track_id": machine.id, **document}
    blockers = document.get("blockers")
    held = recorded_blockers(machine)
    if held or "blockers" in document:
        found["blockers"] = [*(blockers if isinstance(blockers, list) else []), *held]
    found[OWN] = _loop_state(machine, _objects(document.get(OWN)))
    return found


def recorded_blockers(machine: Machine) -> list[dict[str, Any]]:
    """Return what the log says holds the track up; it goes when that is solved."""
    if machine.status != "BLOCKED":
        return []
    visit = machine.visit
    return [{"step": machine.working_phase, "reason": _reason(machine, visit), "recorded": "wfctl"}]


def _reason(machine: Machine, visit: Visit) -> str:
    move = machine.last_move
    if move is not None and move.is_diverted and machine.phase == move.to:
        return f"fix cycles used up ({move.count} of {move.limit}); a person decides"
    return str(visit.data.get("notes") or "blocked")


def _loop_state(machine: Machine, found: dict[str, Any]) -> dict[str, Any]:
    step = machine.working_phase
    visit = machine.visits[step]
    started = visit.started_at or visit.entered_at
    return {
        **found,
        "current_step": step,
        "step_status": machine.status if machine.status is not None else visit.status,
        "step_started_at": utc_seconds(started),
        "fix_cycle_count": machine.counts.get(LOOP, 0),
        "max_fix_cycles": machine.definition.limit_of(LOOP, machine.document)
        if LOOP in machine.definition.loops
        else None,
        "checkpoints": {**_objects(found.get("checkpoints")), **_checkpoints(machine)},
    }


def _objects(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _checkpoints(machine: Machine) -> dict[str, Any]:
    phases = machine.definition.phases
    return {
        name: _checkpoint(machine, visit)
        for name, visit in machine.visits.items()
        if name in phases and (visit.started_at is not None or visit.data)
    }


def _checkpoint(machine: Machine, visit: Visit) -> dict[str, Any]:
    data = dict(visit.data)
    agent = data.pop("agent", None) or machine.definition.phases[visit.phase].agent
    notes = data.get("notes")
    failed = visit.status == "FAILED" and isinstance(notes, str)
    if failed and not str(notes).startswith("ERROR: "):
        data["notes"] = f"ERROR: {notes}"
    return {
        "status": visit.status,
        "started_at": utc_seconds(visit.started_at or visit.entered_at),
        "completed_at": utc_seconds(visit.completed_at),
        "agent": agent or _UNKNOWN_AGENT,
        **data,
        "last_updated": utc_seconds(visit.updated_at or visit.entered_at),
    }
