"""What holds a machine up, and what may be done next with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import DEFINITION, Transition
from lifecycle.machines.guard import FileFact, Guard, text_of, unmet
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import items
from projections.words.text import NextAction, passed, utc_seconds


def machine_actions(
    machine: Machine, files: Mapping[str, FileFact], changed: Iterable[str] = ()
) -> list[NextAction]:
    """Return what may be done from here, what is open first.

    ``changed`` are the files of the machine that others changed, if nobody recorded it yet.
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
        reason = f"{machine.phase} is final; this shows what came of it"
        return [*found, NextAction(f"wfctl machine get {id_}", reason, (), False, "get", id_)]
    facts = machine.facts(files)
    ways = [(way, unmet(way.guard, facts)) for way in machine.ways]
    found += [_open(machine, way) for way, missing in ways if not missing]
    found += [
        NextAction(f"wfctl machine approve {id_} {name}", one.asks, (), True, "approve", name)
        for name, one in machine.known_approvals.items()
        if one.phase == machine.phase and not machine.stands(name, files)
        if _is_wanted(machine, name)
    ]
    found += _events(machine)
    for way, missing in ways:
        needs = tuple(one["condition"] for one in missing)
        command = f"wfctl machine transition {id_} {way.to}"
        if needs:
            found.append(NextAction(command, f"leads to {way.to}", needs, False, "work", way.to))
    return found


def _open(machine: Machine, way: Transition) -> NextAction:
    reason = f"open: {text_of(way.guard)}"
    if way.loop is not None:
        count, limit = machine.counts.get(way.loop, 0), machine.limit_of(way.loop)
        reason += f"; {way.loop} {count} of {limit} used"
        if count >= limit:
            reason += f", so it leads to {machine.definition.loops[way.loop].on_limit}"
    command = f"wfctl machine transition {machine.id} {way.to}"
    return NextAction(command, reason, (), False, "transition", way.to)


def _is_wanted(machine: Machine, approval: str) -> bool:
    """More attempts are only asked for where some task used up those it has."""
    tasks = machine.definition.tasks
    if tasks is None or tasks.beyond != approval:
        return True
    used = [task.get(tasks.attempts_field or "") for task in machine.tasks]
    return any(isinstance(count, int) and count >= (tasks.most_attempts or 0) for count in used)


def _events(machine: Machine) -> list[NextAction]:
    """Return the events that bring the phase on, as things stand."""
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


def blockers(
    machine: Machine, files: Mapping[str, FileFact], now: str | None = None
) -> list[dict[str, Any]]:
    """Return each blocker: ``says`` with what it concerns, and ``items`` where it names some.

    With ``now`` (UTC) a phase whose progress is late is one too.
    """
    if machine.is_final:
        return []
    definition, move, facts = machine.definition, machine.last_move, machine.facts(files)
    found: list[dict[str, Any]] = []
    if machine.definition_agreed is False:
        line = f"wfctl machine approve {machine.id} {DEFINITION}"
        found.append(_blocker(f"the definition {definition.id} waits for a person: `{line}`"))
    agreed = definition.approval_in(machine.phase) in machine.approvals
    if move is not None and move.is_diverted and not agreed:
        used = f"{move.loop} is used up ({move.count} of {move.limit})"
        found.append(_blocker(f"{used}; a person decides"))
    late = _lateness(machine, now)
    found += [_blocker(late)] if late is not None else []
    return found + [
        _told(machine, one.says, one.when)
        for one in definition.blockers
        if not unmet(one.when, facts)
    ]


def _blocker(says: str, names: Iterable[str] = ()) -> dict[str, Any]:
    return {"says": says, "items": list(names)}


def _lateness(machine: Machine, now: str | None) -> str | None:
    if machine.definition.protocol == "conductor":
        return None  # its steps are to report while they are at work: a resume tells that
    phase = machine.definition.phases[machine.phase]
    since = machine.visit.updated_at or machine.visit.entered_at
    late = passed(since, now) if now is not None else None
    if phase.due_seconds is None or late is None or late <= phase.due_seconds:
        return None
    expected = f"{phase.due} min" if isinstance(phase.due, int) else phase.due
    text = f"{machine.phase} is late: nothing was heard of it since {utc_seconds(since)}"
    return f"{text}, expected within {expected}"


def _told(machine: Machine, says: str, when: Guard) -> dict[str, Any]:
    """Say it with the items that were found, or with what was said when the phase came to it."""
    if isinstance(when, g.Some):
        found = items(machine.facts({}).value(when.some))
        names = [name for name, status in found if status in when.status]
        return _blocker(f"{says}: {', '.join(names)}" if names else says, names)
    if isinstance(when, g.StatusIs):
        said = machine.visit.data.get("notes") or machine.visit.data.get("error")
        says += f": {said}" if isinstance(said, str) else ""
    return _blocker(says)
