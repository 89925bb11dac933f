"""``metadata.json``: a conductor track, with every field of others' kept as found."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.machine import Machine, Visit
from projections.words.times import utc_seconds

LOOP = "fix-cycle"
#: The part of the file that the engine writes.
OWN = "loop_state"
_UNKNOWN_AGENT = "unspecified"
#: How many of the earlier stays in a step its checkpoint shows.
_PAST = 10


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
    visit = machine.visit
    if machine.cancelled_at is None and machine.status != "BLOCKED":
        return []
    return [{"step": machine.working_phase, "reason": _reason(machine, visit), "recorded": "wfctl"}]


def _reason(machine: Machine, visit: Visit) -> str:
    move = machine.last_move
    if machine.cancelled_at is not None:
        why = f": {move.reason}" if move is not None and move.reason else ""
        return f"cancelled {utc_seconds(machine.cancelled_at)}{why}"
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
        "step_status": _status(machine, visit),
        "step_started_at": utc_seconds(started),
        "fix_cycle_count": machine.counts.get(LOOP, 0),
        "max_fix_cycles": machine.limit_of(LOOP) if LOOP in machine.definition.loops else None,
        "checkpoints": _checkpoints(machine, _objects(found.get("checkpoints"))),
    }


def _status(machine: Machine, visit: Visit) -> str | None:
    """Return how the step stands; nobody goes on with one that was cancelled."""
    if machine.cancelled_at is not None:
        return "BLOCKED"
    return machine.status if machine.status is not None else visit.status


def _objects(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _checkpoints(machine: Machine, found: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoints: in the order and with the fields of others that were found."""
    phases = machine.definition.phases
    own = {
        name: _checkpoint(machine, visit, _objects(found.get(name)))
        for name, visit in machine.visits.items()
        if name in phases and (visit.has_begun or visit.went)
    }
    return {**found, **own}


def _checkpoint(machine: Machine, visit: Visit, found: dict[str, Any]) -> dict[str, Any]:
    data = dict(visit.data)
    agent = data.pop("agent", None) or machine.definition.phases[visit.phase].agent
    own = {
        "status": visit.status,
        "started_at": utc_seconds(visit.started_at or visit.entered_at),
        "completed_at": utc_seconds(visit.ended_at),
        "agent": agent or _UNKNOWN_AGENT,
        **_with_error(visit.status, data),
        "last_updated": utc_seconds(visit.updated_at or visit.entered_at),
    }
    if visit.went:
        own["history"] = [_past(one) for one in visit.went[-_PAST:]]
    known = {name for kind in machine.definition.events.values() for name in kind.data}
    theirs = {key: value for key, value in found.items() if key in own or key not in known}
    return {**theirs, **own}


def _with_error(status: str | None, data: dict[str, Any]) -> dict[str, Any]:
    notes = data.get("notes")
    if status != "FAILED" or not isinstance(notes, str) or notes.startswith("ERROR: "):
        return data
    return {**data, "notes": f"ERROR: {notes}"}


def _past(stay: dict[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint went through before its step began anew."""
    times = {name: utc_seconds(stay[name]) for name in ("started_at", "completed_at")}
    return _with_error(stay["status"], {**stay, **times})
