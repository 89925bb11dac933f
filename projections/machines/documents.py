"""The files of a machine by the protocol of its type: conductor, dotagent, exarchos."""

from __future__ import annotations

import json
from typing import Any

from lifecycle.machines.machine import Given, Machine, Visit
from lifecycle.machines.path import merged
from projections.words.text import utc_seconds

Document = dict[str, Any]
LOOP = "fix-cycle"
#: The part of the file that the engine writes.
OWN = "loop_state"
#: How many of the earlier stays in a step its checkpoint shows.
_PAST = 10


def metadata(machine: Machine) -> Document:
    """Return the document of ``metadata.json``."""
    document = dict(machine.document)
    found = document if "track_id" in document else {"track_id": machine.id, **document}
    blockers = document.get("blockers")
    held = recorded_blockers(machine)
    if held or "blockers" in document:
        found["blockers"] = [*(blockers if isinstance(blockers, list) else []), *held]
    found[OWN] = _loop_state(machine, _objects(document.get(OWN)))
    return found


def recorded_blockers(machine: Machine) -> list[Document]:
    """Return what the log says holds the track up; it goes when that is solved."""
    move, is_cancelled = machine.last_move, machine.cancelled_at is not None
    if not is_cancelled and machine.status != "BLOCKED":
        return []
    reason = str(machine.visit.data.get("notes") or "blocked")
    if is_cancelled:
        why = f": {move.reason}" if move is not None and move.reason else ""
        reason = f"cancelled {utc_seconds(machine.cancelled_at)}{why}"
    elif move is not None and move.is_diverted and machine.phase == move.to:
        reason = f"fix cycles used up ({move.count} of {move.limit}); a person decides"
    return [{"step": machine.working_phase, "reason": reason, "recorded": "wfctl"}]


def _loop_state(machine: Machine, found: Document) -> Document:
    step = machine.working_phase
    visit = machine.visits[step]
    status = machine.status if machine.status is not None else visit.status
    if machine.cancelled_at is not None:
        status = "BLOCKED"  # nobody goes on with a step that was cancelled
    # In the order and with the fields of others that were found.
    others = _objects(found.get("checkpoints"))
    own = {
        name: _checkpoint(machine, stay, _objects(others.get(name)))
        for name, stay in machine.visits.items()
        if name in machine.definition.phases and (stay.has_begun or stay.went)
    }
    return {
        **found,
        "current_step": step,
        "step_status": status,
        "step_started_at": utc_seconds(visit.started_at or visit.entered_at),
        "fix_cycle_count": machine.counts.get(LOOP, 0),
        "max_fix_cycles": machine.limit_of(LOOP) if LOOP in machine.definition.loops else None,
        "checkpoints": {**others, **own},
    }


def _objects(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _checkpoint(machine: Machine, visit: Visit, found: Document) -> Document:
    data = dict(visit.data)
    agent = data.pop("agent", None) or machine.definition.phases[visit.phase].agent
    own = {
        "status": visit.status,
        "started_at": utc_seconds(visit.started_at or visit.entered_at),
        "completed_at": utc_seconds(visit.ended_at),
        "agent": agent or "unspecified",
        **_with_error(visit.status, data),
        "last_updated": utc_seconds(visit.updated_at or visit.entered_at),
    }
    stays = [
        {**stay, **{n: utc_seconds(stay[n]) for n in ("started_at", "completed_at")}}
        for stay in visit.went[-_PAST:]
    ]
    if stays:
        own["history"] = [_with_error(stay["status"], stay) for stay in stays]
    known = {name for kind in machine.definition.events.values() for name in kind.data}
    theirs = {key: value for key, value in found.items() if key in own or key not in known}
    return {**theirs, **own}


def _with_error(status: str | None, data: Document) -> Document:
    notes = data.get("notes")
    if status != "FAILED" or not isinstance(notes, str) or notes.startswith("ERROR: "):
        return data
    return {**data, "notes": f"ERROR: {notes}"}


#: A field of a machine's document that is no field of ``phase.json``.
_OTHERS = frozenset({"tasks", "execution"})


def phase(machine: Machine) -> Document:
    """Return the document of ``phase.json``.

    ``interruption_safe`` is true: the file is renamed into place whole, or not there.
    """
    is_cancelled, moves = machine.cancelled_at is not None, machine.moves
    # The last phase that is one of the protocol's.
    current = machine.visits[moves[-1].source] if machine.is_final and moves else machine.visit
    status = "complete" if machine.is_final else current.status
    # Left by going on, or complete though not left.
    done = [
        visit
        for visit in machine.visits.values()
        if not machine.definition.is_final(visit.phase)
        and (
            visit.status == "complete"
            or (visit.left_at and not (is_cancelled and visit is current))
        )
    ]
    last = {one.approval: one for one in machine.given if _stands(machine, one)}
    found = {
        "workflow_id": machine.id,
        "started_at": utc_seconds(machine.created),
        "last_updated": utc_seconds(machine.updated),
        "current_phase": current.phase,
        "phase_status": "failed" if is_cancelled else status,
        "completed_phases": [
            {
                "phase": visit.phase,
                "completed_at": utc_seconds(visit.completed_at or visit.left_at),
                "output": visit.data.get("output") or machine.definition.phases[visit.phase].output,
            }
            for visit in done
        ],
        "user_checkpoints": [
            {"phase": one.phase, "approved_at": utc_seconds(one.at)} for one in last.values()
        ],
        "interruption_safe": True,
        **{key: value for key, value in machine.document.items() if key not in _OTHERS},
    }
    if is_cancelled:
        found["cancelled_at"] = utc_seconds(machine.cancelled_at)
    return found


def _execution(machine: Machine) -> Document:
    extra, tasks = machine.document.get("execution"), machine.document.get("tasks")
    return {"tasks": [], **_objects(extra)} | {"tasks": tasks or []}


def _stands(machine: Machine, given: Given) -> bool:
    """Whether it lets a phase be left, and stands.

    A claim of an imported file does not: nobody gave it here. Whether files are other ones since is
    no matter of the log; `Machine.stands` says it.
    """
    visit = machine.visits.get(given.phase)
    if given.approval is None or not machine.definition.ways_of(given.approval) or visit is None:
        return False
    if given.phase != machine.phase:
        return given.at >= visit.entered_at
    return given.approval in machine.approvals and not machine.fields_departed(given.approval)


#: These are there even if nothing was written: readers look into them.
_ALWAYS: Document = {"artifacts": {}, "tasks": [], "worktrees": {}, "reviews": {}, "synthesis": {}}


def _state(machine: Machine) -> Document:
    """Return the file's document; what begins with ``_`` is the engine's."""
    known = {key: value for key, value in _ALWAYS.items() if key in machine.definition.fields}
    found = {
        "version": "1.1",
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


def documents(machine: Machine) -> dict[str, Document]:
    """Return each file of the machine as its document: role → document."""
    protocol = machine.definition.protocol
    if protocol == "dotagent":
        return {"phase": phase(machine), "execution": _execution(machine)}
    if protocol == "conductor":
        return {"metadata": metadata(machine)}
    return {"state": _state(machine)}


def paths(machine: Machine) -> dict[str, str]:
    """Return where each file is: role → path relative to the root."""
    return {
        role: path.replace("{id}", machine.id) for role, path in machine.definition.files.items()
    }


def rendered(machine: Machine) -> dict[str, bytes]:
    """Return each file: path relative to the root → UTF-8 JSON, a newline at the end."""
    places = paths(machine)
    return {
        places[role]: (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
        for role, document in documents(machine).items()
    }
