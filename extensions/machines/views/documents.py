"""Build the state files of a machine in the format of its protocol.

The protocols are conductor, dotagent and exarchos.
"""

from __future__ import annotations

import json
from typing import Any

from extensions.machines.rules.machine import GivenApproval, Machine, Visit
from extensions.machines.rules.path import get_value, merge_deep, parse_path, set_value
from projections.words.text import truncate_utc_to_seconds

Document = dict[str, Any]
LOOP, _REVISIONS = "fix-cycle", "plan-revision"
#: Loop of a conductor track → the name for the things that it counts.
_COUNTED = {LOOP: "fix cycles", _REVISIONS: "plan revisions"}
#: The part of the file that only wfctl writes.
OWN = "loop_state"
#: Maximum number of earlier visits of a step that its checkpoint lists.
_PAST = 10


def build_metadata(machine: Machine) -> Document:
    """Return the content of the ``metadata.json`` of a conductor track."""
    document = dict(machine.document)
    found = document if "track_id" in document else {"track_id": machine.id, **document}
    blockers = document.get("blockers")
    held = recorded_blockers(machine)
    if held or "blockers" in document:
        found["blockers"] = [*(blockers if isinstance(blockers, list) else []), *held]
    found[OWN] = _loop_state(machine, _ensure_object(document.get(OWN)))
    return found


def recorded_blockers(machine: Machine) -> list[Document]:
    """Return the blockers that follow from the log. They disappear when they are solved."""
    move, is_cancelled = machine.last_move, machine.cancelled_at is not None
    if not is_cancelled and machine.status != "BLOCKED":
        return []
    reason = str(machine.visit.data.get("notes") or "blocked")
    if is_cancelled:
        why = f": {move.reason}" if move is not None and move.reason else ""
        reason = f"cancelled {truncate_utc_to_seconds(machine.cancelled_at)}{why}"
    elif move is not None and move.is_diverted and machine.phase == move.to:
        what = _COUNTED.get(move.loop or "", move.loop)
        reason = f"{what} used up ({move.count} of {move.limit}); a person decides"
    return [{"step": machine.working_phase, "reason": reason, "recorded": "wfctl"}]


def _loop_state(machine: Machine, found: Document) -> Document:
    step = machine.working_phase
    visit = machine.visits[step]
    status = machine.status if machine.status is not None else visit.status
    if machine.cancelled_at is not None:
        status = "BLOCKED"  # Nobody continues a cancelled step.
    # Keep the order and the fields that other programs wrote.
    others = _ensure_object(found.get("checkpoints"))
    own = {
        name: _build_checkpoint(machine, stay, _ensure_object(others.get(name)))
        for name, stay in machine.visits.items()
        if name in machine.definition.phases and (stay.has_recorded_events or stay.went)
    }
    found = {**found, **_plan_revisions(machine, found)}
    return {
        **found,
        "current_step": step,
        "step_status": status,
        "step_started_at": _started_at(visit),
        "fix_cycle_count": machine.counts.get(LOOP, 0),
        "max_fix_cycles": machine.limit_of(LOOP) if LOOP in machine.definition.loops else None,
        "checkpoints": {**others, **own},
    }


def _plan_revisions(machine: Machine, found: Document) -> Document:
    """Return the count and the limit of plan revisions, or nothing without revisions."""
    names = ("plan_revision_count", "max_plan_revisions")
    count = machine.counts.get(_REVISIONS, 0)
    if _REVISIONS not in machine.definition.loops or not (count or found.keys() & names):
        return {}
    return dict(zip(names, (count, machine.limit_of(_REVISIONS)), strict=True))


def _ensure_object(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _started_at(visit: Visit) -> str | None:
    """Return the start time of a visit of a step, or None if it is unknown."""
    return truncate_utc_to_seconds(visit.started_at or visit.entered_at or None)


def _build_checkpoint(machine: Machine, visit: Visit, found: Document) -> Document:
    data = dict(visit.data)
    agent = data.pop("agent", None) or machine.definition.phases[visit.phase].agent
    own = {
        "status": visit.status,
        "started_at": _started_at(visit),
        "completed_at": truncate_utc_to_seconds(visit.ended_at),
        "agent": agent or "unspecified",
        **_with_error(visit.status, data),
        "last_updated": truncate_utc_to_seconds(visit.updated_at or visit.entered_at or None),
    }
    stays = [
        {**stay, **{n: truncate_utc_to_seconds(stay[n]) for n in ("started_at", "completed_at")}}
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


#: Fields of a machine that belong in other files than ``phase.json``.
_OTHERS = frozenset({"tasks", "execution"})


def build_phase_document(machine: Machine) -> Document:
    """Return the content of ``phase.json``.

    ``interruption_safe`` is always true, because the file is replaced atomically.
    """
    is_cancelled, moves = machine.cancelled_at is not None, machine.moves
    # For an ended machine, show the last phase that the protocol knows.
    current = machine.visits[moves[-1].source] if machine.is_final and moves else machine.visit
    status = "complete" if machine.is_final else current.status
    # Phases that the machine exited normally, or whose work is complete.
    done = [
        visit
        for visit in machine.visits.values()
        if not machine.definition.is_final(visit.phase)
        and (
            visit.status == "complete"
            or (visit.left_at and not (is_cancelled and visit is current))
        )
    ]
    last = {one.approval: one for one in machine.given if _is_approval_valid(machine, one)}
    found = {
        "workflow_id": machine.id,
        "started_at": truncate_utc_to_seconds(machine.created),
        "last_updated": truncate_utc_to_seconds(machine.updated),
        "current_phase": current.phase,
        "phase_status": "failed" if is_cancelled else status,
        "completed_phases": [
            {
                "phase": visit.phase,
                "completed_at": truncate_utc_to_seconds(visit.completed_at or visit.left_at),
                "output": visit.data.get("output") or machine.definition.phases[visit.phase].output,
            }
            for visit in done
        ],
        "user_checkpoints": [
            {"phase": one.phase, "approved_at": truncate_utc_to_seconds(one.at)}
            for one in last.values()
        ],
        "interruption_safe": True,
        **{key: value for key, value in machine.document.items() if key not in _OTHERS},
    }
    if is_cancelled:
        found["cancelled_at"] = truncate_utc_to_seconds(machine.cancelled_at)
    return found


def _build_execution(machine: Machine) -> Document:
    extra, tasks = machine.document.get("execution"), machine.document.get("tasks")
    return {"tasks": [], **_ensure_object(extra)} | {"tasks": tasks or []}


def _is_approval_valid(machine: Machine, given: GivenApproval) -> bool:
    """Return whether an approval is still valid and allows the machine to leave its phase.

    An approval that only an imported file claims is not valid. This function does not check whether
    files have changed; see `Machine.stands`.
    """
    visit = machine.visits.get(given.phase)
    if (
        given.approval is None
        or not machine.definition.list_approval_transitions(given.approval)
        or visit is None
    ):
        return False
    if given.phase != machine.phase:
        return given.at >= visit.entered_at
    return given.approval in machine.approvals and not machine.list_changed_fields(given.approval)


#: Fields that are written even without a value, because other programs expect them.
_ALWAYS: Document = {"artifacts": {}, "tasks": [], "worktrees": {}, "reviews": {}, "synthesis": {}}


def _build_state(machine: Machine) -> Document:
    """Return the content of the state file. Fields that start with ``_`` belong to wfctl."""
    known = {key: value for key, value in _ALWAYS.items() if key in machine.definition.fields}
    found = {
        "version": "1.1",
        "featureId": machine.id,
        "workflowType": machine.definition.id,
        "createdAt": truncate_utc_to_seconds(machine.created),
        "updatedAt": truncate_utc_to_seconds(machine.updated),
        "phase": machine.phase,
        **merge_deep(known, merge_deep(machine.definition.defaults, machine.document)),
        "_version": machine.head,
        "_loops": dict(machine.counts),
    }
    if machine.handoff is not None:
        found["_checkpoint"] = {
            "timestamp": truncate_utc_to_seconds(machine.handoff.at),
            "phase": machine.handoff.phase,
            "summary": machine.handoff.summary,
            "nextSteps": machine.handoff.next,
        }
    counts: Document = {}
    for name, loop in machine.definition.loops.items():
        # Also write the count to the field from which other programs continue.
        steps = parse_path(loop.count_from) if loop.count_from is not None else None
        if steps is not None and get_value(machine.document, steps) is not None:
            set_value(counts, steps, machine.counts.get(name, 0))
    return merge_deep(found, counts)  # type: ignore[no-any-return]


def build_documents(machine: Machine) -> dict[str, Document]:
    """Return the content of each state file as a document, by its key in the definition."""
    protocol = machine.definition.protocol
    if protocol == "dotagent":
        return {"phase": build_phase_document(machine), "execution": _build_execution(machine)}
    if protocol == "conductor":
        return {"metadata": build_metadata(machine)}
    return {"state": _build_state(machine)}


def list_file_paths(machine: Machine) -> dict[str, str]:
    """Return the relative path of each state file, by its key in the definition."""
    return {
        role: path.replace("{id}", machine.id) for role, path in machine.definition.files.items()
    }


def render_files(machine: Machine) -> dict[str, bytes]:
    """Return the bytes of each state file by path: UTF-8 JSON with a final newline."""
    places = list_file_paths(machine)
    return {
        places[role]: (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
        for role, document in build_documents(machine).items()
    }
