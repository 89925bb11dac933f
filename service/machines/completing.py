"""Completing a command with what only this side of the rules knows: digests, marks, the agent."""

from __future__ import annotations

from pathlib import Path

from lifecycle.machines.definition import trusted
from lifecycle.machines.machine import Machine, tasks_in
from lifecycle.machines.payload import (
    MachineImported,
    MachineRecorded,
    MachineTaskChanged,
    MachineUpdated,
)
from lifecycle.payload.base import Payload
from service.machines import artifacts
from service.machines.evidence import output_at


def completed(root: Path, agent: str, command: Payload, state: Machine | None) -> Payload:
    """Return the command as the rules want it; ``agent`` is who starts a phase of nobody's."""
    if isinstance(command, MachineUpdated):
        found = artifacts.digests(root, command)
        return command.model_copy(update={"digests": found}) if found else command
    if isinstance(command, MachineImported):
        return command.model_copy(update={"task_earlier": _outputs_there(root, command)})
    if isinstance(command, MachineRecorded) and state is not None:
        return _with_agent(command, state, agent)
    if isinstance(command, MachineTaskChanged) and state is not None:
        return _with_earlier_output(root, command, state)
    return command


def _with_earlier_output(
    root: Path, command: MachineTaskChanged, state: Machine
) -> MachineTaskChanged:
    """A task that begins to run: what lies at its output's place already is not its own."""
    tasks = state.definition.tasks
    if tasks is None or command.changes.get("status") != tasks.running:
        return command
    named = command.changes.get("output", (state.task(command.task) or {}).get("output"))
    marks = output_at(root, named).marks
    return command.model_copy(update={"earlier": dict(marks)})


def _outputs_there(root: Path, command: MachineImported) -> dict[str, dict[str, str]]:
    """Return what lies at the outputs of tasks that are taken over at work."""
    tasks = trusted(command.definition, command.machine).tasks
    if tasks is None:
        return {}
    listed = tasks_in(command.document, tasks)
    found = {
        str(one.get("id")): dict(output_at(root, one.get("output")).marks)
        for one in listed
        if one.get("status") == tasks.running
    }
    return {task: marks for task, marks in found.items() if marks}


def _with_agent(command: MachineRecorded, state: Machine, agent: str) -> MachineRecorded:
    """Who starts a phase that is nobody's by its definition is its agent."""
    kind = state.definition.events.get(command.name)
    if kind is None or not kind.starts or state.is_final or "agent" in command.data:
        return command
    if "agent" not in kind.data or state.definition.phases[state.phase].agent is not None:
        return command
    return command.model_copy(update={"data": {**command.data, "agent": agent}})
