"""What holds a machine up, as things stand: a blocker goes when it is solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.guard import FileFact, Guard, items, unmet
from lifecycle.machines.machine import Machine


def blockers(machine: Machine, files: Mapping[str, FileFact]) -> list[dict[str, Any]]:
    """Return each blocker: ``says`` with what it concerns, and ``items`` where it names some."""
    if machine.is_final:
        return []
    facts = machine.facts(files)
    found = [
        _told(blocker.says + _reason(blocker.when, machine), _named(blocker.when, machine))
        for blocker in machine.definition.blockers
        if not unmet(blocker.when, facts)
    ]
    return [*_of_limit(machine), *found]


def _told(says: str, names: list[str]) -> dict[str, Any]:
    return {"says": f"{says}: {', '.join(names)}" if names else says, "items": names}


def _named(guard: Guard, machine: Machine) -> list[str]:
    """Return the items that an item condition found."""
    if not isinstance(guard, g.Some):
        return []
    value = machine.facts({}).value(guard.some)
    return [name for name, status in items(value) if status in guard.status]


def _reason(guard: Guard, machine: Machine) -> str:
    """Return what was said when the phase came to stand as it does."""
    if not isinstance(guard, g.StatusIs):
        return ""
    said = machine.visit.data.get("notes") or machine.visit.data.get("error")
    return f": {said}" if isinstance(said, str) else ""


def _of_limit(machine: Machine) -> list[dict[str, Any]]:
    """A limit that led here waits for a person until one agrees to go on."""
    move = machine.last_move
    approval = machine.definition.approval_in(machine.phase)
    if move is None or not move.is_diverted or approval in machine.approvals:
        return []
    text = f"{move.loop} is used up ({move.count} of {move.limit}); a person decides"
    return [{"says": text, "items": []}]
