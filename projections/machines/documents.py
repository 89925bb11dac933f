"""The files of a machine by the protocol of its type: conductor, dotagent, exarchos."""

from __future__ import annotations

import json
from typing import Any

from lifecycle.machines.machine import Given, Machine, Visit
from lifecycle.machines.path import merged
from projections.words.text import utc_seconds

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
    status = machine.status if machine.status is not None else visit.status
    if machine.cancelled_at is not None:
        status = "BLOCKED"  # nobody goes on with a step that was cancelled
    started = visit.started_at or visit.entered_at
    return {
        **found,
        "current_step": step,
        "step_status": status,
        "step_started_at": utc_seconds(started),
        "fix_cycle_count": machine.counts.get(LOOP, 0),
        "max_fix_cycles": machine.limit_of(LOOP) if LOOP in machine.definition.loops else None,
        "checkpoints": _checkpoints(machine, _objects(found.get("checkpoints"))),
    }


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
        own["history"] = [
            _with_error(
                stay["status"],
                {**stay, **{n: utc_seconds(stay[n]) for n in ("started_at", "completed_at")}},
            )
            for stay in visit.went[-_PAST:]
        ]
    known = {name for kind in machine.definition.events.values() for name in kind.data}
    theirs = {key: value for key, value in found.items() if key in own or key not in known}
    return {**theirs, **own}


def _with_error(status: str | None, data: dict[str, Any]) -> dict[str, Any]:
    notes = data.get("notes")
    if status != "FAILED" or not isinstance(notes, str) or notes.startswith("ERROR: "):
        return data
    return {**data, "notes": f"ERROR: {notes}"}


#: A field of a machine's document that is no field of ``phase.json``.
_OTHERS = frozenset({"tasks", "execution"})


def phase(machine: Machine) -> dict[str, Any]:
    """Return the document of ``phase.json``.

    ``interruption_safe`` is true: the file is renamed into place whole, or not there.
    """
    current = _current(machine)
    status = "complete" if machine.is_final else current.status
    extra = {key: value for key, value in machine.document.items() if key not in _OTHERS}
    found = {
        "workflow_id": machine.id,
        "started_at": utc_seconds(machine.created),
        "last_updated": utc_seconds(machine.updated),
        "current_phase": current.phase,
        "phase_status": "failed" if machine.cancelled_at is not None else status,
        "completed_phases": [_completed(machine, v) for v in _done(machine)],
        "user_checkpoints": [
            {"phase": one.phase, "approved_at": utc_seconds(one.at)} for one in _approved(machine)
        ],
        "interruption_safe": True,
        **extra,
    }
    if machine.cancelled_at is not None:
        found["cancelled_at"] = utc_seconds(machine.cancelled_at)
    return found


def execution(machine: Machine) -> dict[str, Any]:
    """Return the document of ``execution.json``."""
    extra = machine.document.get("execution")
    tasks = machine.document.get("tasks")
    tasks_first = {"tasks": [], **(extra if isinstance(extra, dict) else {})}
    return tasks_first | {"tasks": tasks or []}


def _approved(machine: Machine) -> list[Given]:
    """Return the approvals that let a phase be left, and that stand, each as it was given last.

    A claim of an imported file is none: nobody gave it here. Whether files are other ones since is
    no matter of the log; `Machine.stands` says it.
    """
    last = {one.approval: one for one in machine.given if _stands(machine, one)}
    return list(last.values())


def _stands(machine: Machine, given: Given) -> bool:
    visit = machine.visits.get(given.phase)
    if given.approval is None or not machine.definition.ways_of(given.approval) or visit is None:
        return False
    if given.phase != machine.phase:
        return given.at >= visit.entered_at
    return given.approval in machine.approvals and not machine.fields_departed(given.approval)


def _current(machine: Machine) -> Visit:
    """Return the last phase that is one of the protocol's."""
    if not machine.is_final:
        return machine.visit
    return machine.visits[machine.moves[-1].source] if machine.moves else machine.visit


def _done(machine: Machine) -> list[Visit]:
    """Return the stays that were left by going on, or are complete though not left."""
    cancelled = machine.moves[-1].source if machine.cancelled_at is not None else None
    return [
        visit
        for visit in machine.visits.values()
        if not machine.definition.is_final(visit.phase)
        and (visit.status == "complete" or (visit.left_at and visit.phase != cancelled))
    ]


def _completed(machine: Machine, visit: Visit) -> dict[str, Any]:
    output = visit.data.get("output") or machine.definition.phases[visit.phase].output
    return {
        "phase": visit.phase,
        "completed_at": utc_seconds(visit.completed_at or visit.left_at),
        "output": output,
    }


_VERSION = "1.1"
#: These are there even where nothing was written: readers look into them.
_ALWAYS: dict[str, Any] = {
    "artifacts": {},
    "tasks": [],
    "worktrees": {},
    "reviews": {},
    "synthesis": {},
}


def state(machine: Machine) -> dict[str, Any]:
    """Return the file's document; what begins with ``_`` is the engine's."""
    known = {key: value for key, value in _ALWAYS.items() if key in machine.definition.fields}
    found = {
        "version": _VERSION,
        "featureId": machine.id,
        "workflowType": machine.definition.id,
        "createdAt": utc_seconds(machine.created),
        "updatedAt": utc_seconds(machine.updated),
        "phase": machine.phase,
        **merged(known, merged(machine.definition.defaults, machine.document)),
        "_version": machine.head,
        "_loops": dict(machine.counts),
    }
    if machine.handoff is not None:
        found["_checkpoint"] = {
            "timestamp": utc_seconds(machine.handoff.at),
            "phase": machine.handoff.phase,
            "summary": machine.handoff.summary,
            "nextSteps": machine.handoff.next,
        }
    return found


Document = dict[str, Any]


def documents(machine: Machine) -> dict[str, Document]:
    """Return each file of the machine as its document: role → document."""
    match machine.definition.protocol:
        case "dotagent":
            return {"phase": phase(machine), "execution": execution(machine)}
        case "conductor":
            return {"metadata": metadata(machine)}
        case _:
            return {"state": state(machine)}


def paths(machine: Machine) -> dict[str, str]:
    """Return where each file is: role → path relative to the root."""
    return {
        role: path.replace("{id}", machine.id) for role, path in machine.definition.files.items()
    }


def rendered(machine: Machine) -> dict[str, bytes]:
    """Return each file: path relative to the root → its bytes."""
    places = paths(machine)
    return {places[role]: to_bytes(document) for role, document in documents(machine).items()}


def to_bytes(document: Document) -> bytes:
    """Return UTF-8 JSON, 2-space indent, a newline at the end."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
