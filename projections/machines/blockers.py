"""What holds a machine up, as things stand: a blocker goes when it is solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import DEFINITION
from lifecycle.machines.guard import FileFact, Guard, unmet
from lifecycle.machines.items import items
from lifecycle.machines.machine import Machine
from projections.words.times import passed, utc_seconds


def blockers(
    machine: Machine, files: Mapping[str, FileFact], now: str | None = None
) -> list[dict[str, Any]]:
    """Return each blocker: ``says`` with what it concerns, and ``items`` where it names some.

    With ``now`` (UTC) a phase whose progress is late is one too.
    """
    if machine.is_final:
        return []
    facts = machine.facts(files)
    found = [
        _told(blocker.says + _reason(blocker.when, machine), _named(blocker.when, machine))
        for blocker in machine.definition.blockers
        if not unmet(blocker.when, facts)
    ]
    return [*_of_definition(machine), *_of_limit(machine), *_of_time(machine, now), *found]


def _of_time(machine: Machine, now: str | None) -> list[dict[str, Any]]:
    if machine.definition.protocol == "conductor":
        return []  # its steps are to report while they are at work: a resume tells that
    due = machine.definition.phases[machine.phase].due_seconds
    since = machine.visit.updated_at or machine.visit.entered_at
    late = passed(since, now) if due is not None and now is not None else None
    if due is None or late is None or late <= due:
        return []
    limit = machine.definition.phases[machine.phase].due
    expected = f"{limit} min" if isinstance(limit, int) else limit
    text = f"{machine.phase} is late: nothing was heard of it since {utc_seconds(since)}"
    return [{"says": f"{text}, expected within {expected}", "items": []}]


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


def _of_definition(machine: Machine) -> list[dict[str, Any]]:
    """A definition of one's own waits until a person agrees to it."""
    if machine.definition_agreed is not False:
        return []
    line = f"wfctl machine approve {machine.id} {DEFINITION}"
    text = f"the definition {machine.definition.id} waits for a person: `{line}`"
    return [{"says": text, "items": []}]


def _of_limit(machine: Machine) -> list[dict[str, Any]]:
    """A limit that led here waits for a person until one agrees to go on."""
    move = machine.last_move
    approval = machine.definition.approval_in(machine.phase)
    if move is None or not move.is_diverted or approval in machine.approvals:
        return []
    text = f"{move.loop} is used up ({move.count} of {move.limit}); a person decides"
    return [{"says": text, "items": []}]
