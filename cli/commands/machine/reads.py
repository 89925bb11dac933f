"""``wfctl machine get``: the state, or a part of it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.commands.machine.arguments import MachineId
from cli.commands.machine.output import next_lines
from cli.commands.machine.workspace import looking
from cli.frame.options import At, KnownAt
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import look, parse
from projections.machines.documents import documents
from projections.machines.next_actions import machine_actions
from projections.words.times import utc_seconds
from service.machines import evidence
from service.machines.inspection import warnings


def get(
    context: typer.Context,
    machine: MachineId,
    query: Annotated[
        str | None, typer.Option(metavar="PATH", help="Only what stands at a dot path.")
    ] = None,
    fields: Annotated[str | None, typer.Option(metavar="PATH,…", help="Only these fields.")] = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Where a machine stands, or a part of its state."""
    if query is not None and fields is not None:
        raise InvalidInput("--query and --fields exclude each other")
    with looking(context, machine) as machines:
        state = machines.state(machine, at, known_at)
        past = at is not None or known_at is not None
        told = [] if past else warnings(machines.root, machines.log(machine), state)
        files = evidence.evidence(machines.root.path, state)
        data = _selected(state_of(state), query, fields)

        def text() -> str:
            if query is not None or fields is not None:
                return data if isinstance(data, str) else json.dumps(data, indent=2)
            lines = [*summary(state), *(f"warning: {one}" for one in told)]
            return "\n".join(lines + next_lines(machine_actions(state, files)))

        held = claims(state) if state.leases else None
        machines.output.result(data, text, state, files, warnings=told, claims=held)


def state_of(state: Machine) -> dict[str, Any]:
    """Return a machine's state as one document, whatever files show it."""
    found: dict[str, Any] = {}
    for document in documents(state).values():
        found |= document
    return found


def _selected(document: dict[str, Any], query: str | None, fields: str | None) -> Any:
    if query is not None:
        return look(document, parse(query))
    if fields is not None:
        names = [name.strip() for name in fields.split(",") if name.strip()]
        return {name: look(document, parse(name)) for name in names}
    return document


def summary(state: Machine) -> list[str]:
    """Return where a machine stands, for people."""
    status = f", {state.status}" if state.status is not None else ""
    lines = [f"{state.id}  {state.definition.id}, in {state.phase}{status}, version {state.head}"]
    if not state.is_final:
        lines.append(f"  {state.definition.phases[state.phase].asks}")
    lines += [
        f"  {loop}: {count} of {state.limit_of(loop)}" for loop, count in state.counts.items()
    ]
    return lines + [
        f"  task {task.get('id')}: {task.get('status')}{_claimed(state, task)}"
        for task in state.tasks
    ]


def _claimed(state: Machine, task: dict[str, Any]) -> str:
    held = state.leases.get(str(task.get("id")))
    return f", claimed by {held.by} until {utc_seconds(held.until)}" if held is not None else ""


def claims(state: Machine) -> dict[str, Any]:
    """Return the claims of a machine's tasks: task → by whom, until when."""
    return {
        task: {"by": held.by, "until": utc_seconds(held.until)}
        for task, held in state.leases.items()
    }
