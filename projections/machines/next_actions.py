"""What holds a machine up, and what may be done next with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import DEFINITION, EventKind, Transition
from lifecycle.machines.guard import Facts, FileFact, Guard, text_of, unmet
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import items
from projections.words.next_action import NextAction
from projections.words.text import passed, utc_seconds


def machine_actions(
    machine: Machine, files: Mapping[str, FileFact], changed: Iterable[str] = ()
) -> list[NextAction]:
    """Return what may be done from here, what is open first.

    ``changed`` are the files of the machine that others changed, where nobody recorded it yet.
    """
    edited = [(drift.file, "by hand") for drift in machine.drifts]
    edited += [(file, "by somebody else") for file in changed]
    look = f"wfctl machine drift {machine.id}"
    found = [
        _action(look, f"{file} was changed {how}", "drift", file, person=True)
        for file, how in edited
    ]
    if machine.is_final:
        reason = f"{machine.phase} is final; this shows what came of it"
        shown = _action(f"wfctl machine get {machine.id}", reason, "get", machine.id)
        return [*found, shown]
    facts = machine.facts(files)
    ways = machine.ways
    shut = {way.to: unmet(way.guard, facts) for way in ways}
    found += [_open(machine, way) for way in ways if not shut[way.to]]
    found += _approvals(machine, facts) + _events(machine)
    for to, missing in shut.items():
        needs = [one["condition"] for one in missing]
        command = f"wfctl machine transition {machine.id} {to}"
        found += [_action(command, f"leads to {to}", "work", to, needs)] if needs else []
    return found


def _action(
    command: str,
    reason: str,
    verb: str,
    target: str | None,
    needs: Iterable[str] = (),
    *,
    person: bool = False,
) -> NextAction:
    return NextAction(command, reason, tuple(needs), person, verb, target)


def _open(machine: Machine, way: Transition) -> NextAction:
    command = f"wfctl machine transition {machine.id} {way.to}"
    loop = ""
    if way.loop is not None:
        count = machine.counts.get(way.loop, 0)
        limit = machine.limit_of(way.loop)
        loop = f"; {way.loop} {count} of {limit} used"
        if count >= limit:
            loop += f", so it leads to {machine.definition.loops[way.loop].on_limit}"
    return _action(command, f"open: {text_of(way.guard)}{loop}", "transition", way.to)


def _approvals(machine: Machine, facts: Facts) -> list[NextAction]:
    return [
        _action(
            f"wfctl machine approve {machine.id} {name}",
            approval.asks,
            "approve",
            name,
            person=True,
        )
        for name, approval in machine.known_approvals.items()
        if approval.phase == machine.phase and not machine.stands(name, facts.files)
        if _is_wanted(machine, name)
    ]


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
    return [
        _event(machine, name, kind)
        for name, kind in machine.definition.events.items()
        if machine.status in kind.after and kind.status != machine.status
        if kind.status is None or phase.status is None
        if kind.status is not None or kind.completes or kind.required
    ]


def _event(machine: Machine, name: str, kind: EventKind) -> NextAction:
    """Return how an event is recorded; one that says the work is done needs that it is."""
    command, needs = f"wfctl machine append {machine.id} {name}", []
    if kind.required:
        command, needs = f"{command} --data JSON", ["JSON"]
    said = f"{kind.says} JSON holds {', '.join(kind.required)}." if kind.required else kind.says
    if kind.completes:
        asked = machine.definition.phases[machine.phase].asks
        needs.append(f"the work of {machine.phase}: {asked}" if asked else "the phase's work")
    return _action(command, said, "append", name, needs)


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
        _told(machine, blocker.says, blocker.when)
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


def _told(machine: Machine, says: str, when: Guard) -> dict[str, Any]:
    """Say it with the items that were found, or with what was said when the phase came to it."""
    names: list[str] = []
    if isinstance(when, g.Some):
        found = items(machine.facts({}).value(when.some))
        names = [name for name, status in found if status in when.status]
    elif isinstance(when, g.StatusIs):
        said = machine.visit.data.get("notes") or machine.visit.data.get("error")
        says += f": {said}" if isinstance(said, str) else ""
    return {"says": f"{says}: {', '.join(names)}" if names else says, "items": names}


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
