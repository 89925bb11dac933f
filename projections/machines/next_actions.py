"""What may be done next with a machine: verb, target, reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lifecycle.machines.definition import Transition
from lifecycle.machines.guard import Facts, FileFact, text_of, unmet
from lifecycle.machines.machine import Machine


class MachineAction(NamedTuple):
    """A command, why one would call it, and what it does to what."""

    command: str
    reason: str
    verb: str
    target: str | None


def machine_actions(
    machine: Machine, files: Mapping[str, FileFact], changed: Iterable[str] = ()
) -> list[MachineAction]:
    """Return what may be done from here, what is open first.

    ``changed`` are the files of the machine that others changed, where nobody recorded it yet.
    """
    found = [*_drifts(machine), *(_changed(machine, file) for file in changed)]
    if machine.is_final:
        reason = f"{machine.phase} is final; this shows what came of it"
        return [*found, MachineAction(f"wfctl machine get {machine.id}", reason, "get", machine.id)]
    facts = machine.facts(files)
    ways = machine.ways
    shut = {way.to: unmet(way.guard, facts) for way in ways}
    found += [_open(machine, way) for way in ways if not shut[way.to]]
    found += _approvals(machine, facts) + _events(machine)
    needs = [(way, shut[way.to]) for way in ways if shut[way.to]]
    found += [_shut(machine, way, [one["condition"] for one in missing]) for way, missing in needs]
    cancel = f"wfctl machine cancel {machine.id}"
    return [*found, MachineAction(cancel, "to give it up", "cancel", machine.id)]


def _drifts(machine: Machine) -> list[MachineAction]:
    command = f"wfctl machine drift {machine.id}"
    return [
        MachineAction(command, f"{drift.file} was changed by hand", "drift", drift.file)
        for drift in machine.drifts
    ]


def _changed(machine: Machine, file: str) -> MachineAction:
    command = f"wfctl machine drift {machine.id}"
    return MachineAction(command, f"{file} was changed by somebody else", "drift", file)


def _open(machine: Machine, way: Transition) -> MachineAction:
    command = f"wfctl machine transition {machine.id} {way.to}"
    loop = ""
    if way.loop is not None:
        count = machine.counts.get(way.loop, 0)
        limit = machine.limit_of(way.loop)
        loop = f"; {way.loop} {count} of {limit} used"
        if count >= limit:
            loop += f", so it leads to {machine.definition.loops[way.loop].on_limit}"
    return MachineAction(command, f"open: {text_of(way.guard)}{loop}", "transition", way.to)


def _shut(machine: Machine, way: Transition, conditions: list[str]) -> MachineAction:
    command = f"wfctl machine describe {machine.definition.id}"
    reason = f"before {way.to}: {'; '.join(conditions)}"
    return MachineAction(command, reason, "work", way.to)


def _approvals(machine: Machine, facts: Facts) -> list[MachineAction]:
    return [
        MachineAction(
            f"wfctl machine approve {machine.id} {name}",
            f"a person decides: {approval.asks}",
            "approve",
            name,
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


def _events(machine: Machine) -> list[MachineAction]:
    return [
        MachineAction(f"wfctl machine append {machine.id} {name}", kind.says, "append", name)
        for name, kind in machine.definition.events.items()
        if machine.status in kind.after
        if kind.status is None or machine.definition.phases[machine.phase].status is None
    ]
