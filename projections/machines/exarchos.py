"""``<featureId>.state.json``: the state of an exarchos workflow."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.machine import Handoff, Machine
from lifecycle.machines.path import merged
from projections.words.times import utc_seconds

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
        found["_checkpoint"] = _checkpoint(machine.handoff)
    return found


def _checkpoint(handoff: Handoff) -> dict[str, Any]:
    return {
        "timestamp": utc_seconds(handoff.at),
        "phase": handoff.phase,
        "summary": handoff.summary,
        "nextSteps": handoff.next,
    }
