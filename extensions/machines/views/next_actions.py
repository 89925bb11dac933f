"""List the blockers of a machine, and the available next actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from extensions.machines.rules import guard as g
from extensions.machines.rules.definition import DEFINITION, Transition
from extensions.machines.rules.guard import FileFact, Guard, list_unmet, text_of
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.path import list_item_statuses
from projections.words.text import NextAction, seconds_since, truncate_utc_to_seconds


def machine_actions(
    machine: Machine, files: Mapping[str, FileFact], changed: Iterable[str] = ()
) -> list[NextAction]:
    """Return the actions available in a machine's current phase, permitted ones first.

    ``changed`` are the files with changes of other programs that are not recorded.
    """
    id_ = machine.id
    edited = [(drift.file, "by hand") for drift in machine.drifts]
    edited += [(file, "by somebody else") for file in changed]
    found = [
        NextAction(
            f"wfctl machine drift {id_}", f"{file} was changed {how}", (), True, "drift", file
        )
        for file, how in edited
    ]
    if machine.is_final:
        reason = f"{machine.phase} is a final phase; this command shows the result"
        return [*found, NextAction(f"wfctl machine get {id_}", reason, (), False, "get", id_)]
    facts = machine.facts(files)
    ways = [(way, list_unmet(way.guard, facts)) for way in machine.ways]
    found += [_build_open_action(machine, way) for way, missing in ways if not missing]
    found += [
        NextAction(f"wfctl machine approve {id_} {name}", one.asks, (), True, "approve", name)
        for name, one in machine.known_approvals.items()
        if one.phase == machine.phase and not machine.is_approval_up_to_date(name, files)
        if _is_approval_due(machine, name)
    ]
    found += _list_event_actions(machine)
    for way, missing in ways:
        needs = tuple(one["condition"] for one in missing)
        command = f"wfctl machine transition {id_} {way.to}"
        if needs:
            found.append(NextAction(command, f"leads to {way.to}", needs, False, "work", way.to))
    return found


def _build_open_action(machine: Machine, way: Transition) -> NextAction:
    reason = f"open: {text_of(way.guard)}"
    if way.loop is not None:
        count, limit = machine.counts.get(way.loop, 0), machine.limit_of(way.loop)
        reason += f"; {way.loop} {count} of {limit} used"
        if count >= limit:
            reason += f", so the machine changes to {machine.definition.loops[way.loop].on_limit}"
    command = f"wfctl machine transition {machine.id} {way.to}"
    return NextAction(command, reason, (), False, "transition", way.to)


def _is_approval_due(machine: Machine, approval: str) -> bool:
    """Return whether an approval is useful now.

    An approval of more attempts is useful only if a task has used all of its attempts.
    """
    tasks = machine.definition.tasks
    if tasks is None or tasks.beyond != approval:
        return True
    used = [task.get(tasks.attempts_field or "") for task in machine.tasks]
    return any(isinstance(count, int) and count >= (tasks.most_attempts or 0) for count in used)


def _list_event_actions(machine: Machine) -> list[NextAction]:
    """Return the actions that record an event to advance the current phase."""
    phase = machine.definition.phases[machine.phase]
    work = f"the work of {machine.phase}: {phase.asks}" if phase.asks else "the phase's work"
    found = []
    for name, kind in machine.definition.events.items():
        leads = kind.status is not None or kind.completes or kind.required
        fits = machine.status in kind.after and kind.status != machine.status
        if fits and leads and (kind.status is None or phase.status is None):
            command, said, needs = f"wfctl machine append {machine.id} {name}", kind.says, []
            if kind.required:
                command, needs = f"{command} --data JSON", ["JSON"]
                said = f"{said} JSON holds {', '.join(kind.required)}."
            needs += [work] if kind.completes else []
            found.append(NextAction(command, said, tuple(needs), False, "append", name))
    return found


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
