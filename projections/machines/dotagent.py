"""``phase.json`` and ``execution.json``: the dotagent checkpoint."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.machine import Given, Machine, Visit
from projections.words.times import utc_seconds

#: A field of a machine's document that is no field of ``phase.json``.
_OTHERS = frozenset({"tasks", "execution"})


def phase(machine: Machine) -> dict[str, Any]:
    """Return the document of ``phase.json``.

    ``interruption_safe`` is true: the file is renamed into place whole, or not there.
    """
    current = _current(machine)
    extra = {key: value for key, value in machine.document.items() if key not in _OTHERS}
    found = {
        "workflow_id": machine.id,
        "started_at": utc_seconds(machine.created),
        "last_updated": utc_seconds(machine.updated),
        "current_phase": current.phase,
        "phase_status": _status(machine, current),
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


def _status(machine: Machine, current: Visit) -> str | None:
    if machine.cancelled_at is not None:
        return "failed"
    return "complete" if machine.is_final else current.status


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
