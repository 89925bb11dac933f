"""List the conditions that keep a machine in its phase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extensions.machines.rules import guard as g
from extensions.machines.rules.definition import DEFINITION
from extensions.machines.rules.guard import FileFact, Guard, list_unmet
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.path import list_item_statuses
from projections.words.text import seconds_since, truncate_utc_to_seconds


def list_blockers(
    machine: Machine, files: Mapping[str, FileFact], now: str | None = None
) -> list[dict[str, Any]]:
    """Return the problems that block the work of a machine.

    ``says`` describes a problem, and ``items`` names the affected things. If ``now`` (UTC) is
    given, late progress is also reported.
    """
    if machine.is_final:
        return []
    definition, move, facts = machine.definition, machine.last_move, machine.facts(files)
    found: list[dict[str, Any]] = []
    if machine.definition_agreed is False:
        line = f"wfctl machine approve {machine.id} {DEFINITION}"
        found.append(_build_blocker(f"the definition {definition.id} waits for a person: `{line}`"))
    agreed = definition.find_phase_approval(machine.phase) in machine.approvals
    if move is not None and move.is_diverted and not agreed:
        used = f"{move.loop} is used up ({move.count} of {move.limit})"
        found.append(_build_blocker(f"{used}; a person decides"))
    late = _explain_lateness(machine, now)
    found += [_build_blocker(late)] if late is not None else []
    return found + [
        _describe_blocker(machine, one.says, one.when)
        for one in definition.blockers
        if not list_unmet(one.when, facts)
    ]


def _build_blocker(says: str, names: Iterable[str] = ()) -> dict[str, Any]:
    return {"says": says, "items": list(names)}


def _explain_lateness(machine: Machine, now: str | None) -> str | None:
    if machine.definition.protocol == "conductor":
        return None  # Steps report during their work, and a resume shows late ones.
    phase = machine.definition.phases[machine.phase]
    since = machine.visit.updated_at or machine.visit.entered_at
    late = seconds_since(since, now) if now is not None else None
    if phase.due_seconds is None or late is None or late <= phase.due_seconds:
        return None
    expected = f"{phase.due} min" if isinstance(phase.due, int) else phase.due
    text = f"{machine.phase} is late: the last report was at {truncate_utc_to_seconds(since)}"
    return f"{text}, expected within {expected}"


def _describe_blocker(machine: Machine, says: str, when: Guard) -> dict[str, Any]:
    """Return a description of a blocker, with the affected items or the phase's notes."""
    if isinstance(when, g.Some):
        found = list_item_statuses(machine.facts({}).value(when.some))
        names = [name for name, status in found if status in when.status]
        return _build_blocker(f"{says}: {', '.join(names)}" if names else says, names)
    if isinstance(when, g.StatusIs):
        said = machine.visit.data.get("notes") or machine.visit.data.get("error")
        says += f": {said}" if isinstance(said, str) else ""
    return _build_blocker(says)
