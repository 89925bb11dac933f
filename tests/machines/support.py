"""Helpers that build machines and run commands on them for tests of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from extensions.machines.rules import guard as g
from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.definition import Definition
from extensions.machines.rules.field_shapes import find_shape_at
from extensions.machines.rules.guard import FileFact
from extensions.machines.rules.machine import Machine, Move
from extensions.machines.rules.path import commit_fact_key, parse_path, set_value
from extensions.machines.rules.soundness import load_definition
from extensions.machines.service.complete_command import SHIPPED, load_shipped_definition
from lifecycle.payload.base import Payload

AT = "2026-03-31T10:00:00.000000Z"
COMMIT = "0123456789abcdef"
PROOF: dict[str, Any] = {"policy": "trust"}


@cache
def definition(name: str) -> Definition:
    """Return the machine definition with the given name that comes with wfctl."""
    return load_shipped_definition(name)


def every() -> list[Definition]:
    """Return all machine definitions that come with wfctl."""
    return [definition(name) for name in SHIPPED]


def small(**more: Any) -> Definition:
    """Return a definition of two phases, with the given keys added or replaced."""
    return load_definition(small_data(**more))


def small_data(**more: Any) -> dict[str, Any]:
    """Return the JSON data of a machine definition with two phases."""
    return {
        "id": "small",
        "title": "Small",
        "initial": "a",
        "phases": {"a": {}, "b": {"final": True}},
        "transitions": [{"from": "a", "to": "b"}],
        "files": {"state": "{id}.state.json"},
        **more,
    }


def begun(name: str | Definition, id_: str = "task-001", **document: Any) -> Machine:
    """Return a new machine with the given definition and initial fields."""
    known = definition(name) if isinstance(name, str) else name
    command = p.MachineCreated(machine=id_, definition=known.dumped(), document=document)
    return compute_state_after(None, decide(None, command, AT), AT)


def placed(
    known: Definition, phase: str, document: Mapping[str, Any], status: str | None
) -> Machine:
    """Return an imported machine that is in the given phase."""
    command = p.MachineImported(
        machine="task-001",
        definition=known.dumped(),
        phase=phase,
        status=status,
        document=dict(document),
        counts={},
    )
    return compute_state_after(None, decide(None, command, AT), AT)


def when(
    state: Machine, *commands: Payload, files: Mapping[str, FileFact] | None = None
) -> Machine:
    """Apply commands to a machine one after the other, and return its new state."""
    for command in commands:
        state = compute_state_after(state, decide(state, command, AT, files), AT)
    return state


def set_(**fields: Any) -> p.MachineUpdated:
    """Return the command that writes fields; ``__`` in a keyword stands for a dot in the path."""
    changes = [p.Change(path=k.replace("__", "."), value=v) for k, v in fields.items()]
    return p.MachineUpdated(changes=changes)


def go(to: str | None = None) -> p.MachineTransitioned:
    """Return the command for a transition to the given phase. Without one, wfctl chooses it."""
    return p.MachineTransitioned(to=to)


@dataclass
class World:
    """The fields, events, approvals and files that a guard (condition of a transition) checks."""

    known: Definition
    status: str | None = None
    document: dict[str, Any] = field(default_factory=dict)
    recorded: list[str] = field(default_factory=list)
    approved: list[str] = field(default_factory=list)
    files: dict[str, FileFact] = field(default_factory=dict)
    diverted_by: str | None = None

    def machine(self, phase: str) -> Machine:
        """Return a machine in the given phase, to which the facts of this world apply."""
        state = placed(self.known, phase, self.document, self.status)
        if self.diverted_by is not None:
            move = Move("before", phase, AT, loop=self.diverted_by, asked="there")
            state.moves.append(move)
        for name in self.recorded:
            state = when(state, p.MachineRecorded(name=name))
        for name in self.approved:
            state = when(state, p.MachineApproved(approval=name, proof=PROOF))
        return state

    def write(self, path: str, value: Any) -> None:
        """Write a value to a field of the document."""
        set_value(self.document, parse_path(path), value)


def meet(guard: g.Guard | None, world: World) -> None:  # noqa: C901 - one case per condition
    """Change the facts of the world so that they meet the guard."""
    match guard:
        case g.Present(present=path):
            world.write(path, "something")
        case g.Equals(field=path, equals=value):
            world.write(path, value)
        case g.HasCommit(commit=path):
            world.write(path, COMMIT)
            world.files[commit_fact_key(COMMIT)] = FileFact((COMMIT,), (COMMIT,))
        case g.Every(every=path, status=statuses, including=names):
            world.write(path, _items(world, path, statuses[0], names))
        case g.Some(some=path, status=statuses):
            world.write(path, _items(world, path, statuses[0], ["one"]))
        case g.Recorded(recorded=name):
            world.recorded.append(name)
        case g.Approved(approved=name):
            world.approved.append(name)
        case g.HasFile(file=pattern):
            world.files[pattern] = FileFact((pattern,), (pattern,))
        case g.StatusIs(phase_status=status):
            world.status = status
        case g.LimitOf(limit_of=loop):
            world.diverted_by = loop
        case g.All(all=parts):
            for part in parts:
                meet(part, world)
        case g.AnyOf(any=parts):
            meet(parts[0], world)
        case g.Not(not_=inside):
            fail(inside, world)


def fail(guard: g.Guard | None, world: World) -> None:
    """Change the facts of the world so that they do not meet the guard."""
    match guard:
        case g.Equals(field=path, equals=bool(value)):
            world.write(path, not value)
        case g.Equals(field=path, equals=value):
            world.write(path, _other(world, path, value))
        case g.Every(every=path):
            world.write(path, _items(world, path, "fail", ["one"]))
        case g.AnyOf(any=parts):
            for part in reversed(parts):
                fail(part, world)
        case g.All(all=parts):
            fail(parts[0], world)
        case g.Not(not_=inside):
            meet(inside, world)
        case _:
            return


def _items(world: World, path: str, status: str, names: list[str]) -> Any:
    if isinstance(find_shape_at(world.known.fields, parse_path(path)), list):
        return [{"id": name, "status": status} for name in names or ["task-001"]]
    return {name: {"status": status} for name in names or ["one"]}


def _other(world: World, path: str, value: Any) -> Any:
    """Return another value that is valid for the field."""
    shape = find_shape_at(world.known.fields, parse_path(path))
    assert isinstance(shape, str)
    return next(other for other in shape.split("|") if other != value)
