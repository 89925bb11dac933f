"""List the actions that are available in the current phase of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extensions.machines.rules.definition import Transition
from extensions.machines.rules.guard import FileFact, list_unmet, text_of
from extensions.machines.rules.machine import Machine
from projections.words.text import NextAction


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
