"""Completing a command with what only this side of the rules knows: digests, marks, the agent."""

from __future__ import annotations

from pathlib import Path

from lifecycle.machines.definition import trusted
from lifecycle.machines.machine import Machine, tasks_in
from lifecycle.machines.payload import (
    MachineCreated,
    MachineImported,
    MachineRecorded,
    MachineTaskChanged,
    MachineUpdated,
)
from lifecycle.payload.base import Payload
from service.machines import artifacts
from service.machines.definitions import is_own
from service.machines.evidence import outputs_of


def completed(root: Path, agent: str, command: Payload, state: Machine | None) -> Payload:
    """Return the command as the rules want it; ``agent`` is who starts a phase of nobody's."""
    if isinstance(command, MachineUpdated):
        found = artifacts.digests(root, command)
        return command.model_copy(update={"digests": found}) if found else command
    if isinstance(command, MachineCreated):
        return command.model_copy(update={"own": is_own(command.definition)})
    if isinstance(command, MachineImported):
        there = _outputs_there(root, command)
        return command.model_copy(update={"own": is_own(command.definition), "task_earlier": there})
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
    task = {**(state.task(command.task) or {}), "id": command.task, **command.changes}
    marks = outputs_of(root, state.definition, task, {}).marks
    return command.model_copy(update={"earlier": dict(marks)})


def _outputs_there(root: Path, command: MachineImported) -> dict[str, dict[str, str]]:
    """Return what lies at the outputs of tasks that are taken over at work."""
    known = trusted(command.definition, command.machine)
    if known.tasks is None:
        return {}
    found = {
        str(one.get("id")): dict(outputs_of(root, known, one, {}).marks)
        for one in tasks_in(command.document, known.tasks)
        if one.get("status") == known.tasks.running
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
