"""Completing a command with what only this side of the rules knows: digests, marks, the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lifecycle.machines.definition import MOST_ROUNDS, Definition, trusted
from lifecycle.machines.errors import InvalidDefinition, InvalidInput
from lifecycle.machines.machine import Machine, tasks_in
from lifecycle.machines.path import marks_before
from lifecycle.machines.payload import (
    MachineCreated,
    MachineImported,
    MachineRecorded,
    MachineTaskChanged,
    MachineUpdated,
)
from lifecycle.machines.soundness import load
from lifecycle.payload.base import Payload
from service.machines import evidence
from service.machines.evidence import outputs_of
from service.root.disk import OutsideRoot, content_within

#: The shipped definitions, in the order in which they are shown.
SHIPPED = ("feature", "debug", "refactor", "oneshot", "dotagent", "conductor")


#: Where a repository of conductor tracks keeps its settings, and the field of a track's own limit.
_CONFIG, _LIMIT = "conductor/config.json", "loop_state.max_fix_cycles"


@cache  # it cannot be changed, and a process that stays is asked for it again
def shipped(name: str) -> Definition:
    """Return a definition that travels with wfctl; raises `InvalidInput` for another name."""
    from service.documents.strict_yaml import load as decoded

    if name not in SHIPPED:
        raise InvalidInput(
            f"no type {name!r}; there is: {', '.join(SHIPPED)}. `--definition FILE` takes another.",
            type=name,
            known=list(SHIPPED),
        )
    source = files("lifecycle.machines") / "definitions" / f"{name}.yaml"
    return load(decoded(source.read_text("utf-8")), name)


def is_own(data: Mapping[str, Any]) -> bool:
    """Whether a definition is not shipped with wfctl; how often its loops may go is free."""
    if data.get("id") not in SHIPPED:
        return True
    known, there = trusted(data), shipped(str(data["id"]))
    same = known.with_limits({name: loop.limit for name, loop in there.loops.items()})
    return same != there or list(known.phases) != list(there.phases)


def limited(definition: Definition, root: Path) -> Definition:
    """Return a definition with the limit that the repository at ``root`` has of its own."""
    if definition.protocol != "conductor":
        return definition
    try:
        found = json.loads(content_within(root, _CONFIG) or b"{}")
    except (OSError, ValueError, RecursionError, OutsideRoot):
        return definition
    limit = found.get("max_fix_cycles") if isinstance(found, dict) else None
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_ROUNDS:
        return definition
    from_there = [name for name, loop in definition.loops.items() if loop.limit_from == _LIMIT]
    return definition.with_limits(dict.fromkeys(from_there, limit))


def from_file(source: str) -> Definition:
    """Return the definition in a JSON, YAML or TOML file (``-`` is standard input).

    Raises `NotFound`, `UnreadablePlan`, `InvalidDefinition`.
    """
    from lifecycle.errors import InvalidPlan
    from service.documents.plan_file import read_plan

    try:
        return load(read_plan(source), source)
    except InvalidPlan as error:
        raise InvalidDefinition(source, error.data["problems"]) from error


def completed(root: Path, agent: str, command: Payload, state: Machine | None) -> Payload:
    """Return the command as the rules want it; ``agent`` is who starts a phase of nobody's."""
    if isinstance(command, MachineUpdated):
        found = evidence.digests(root, command)
        return command.model_copy(update={"digests": found}) if found else command
    if isinstance(command, MachineCreated):
        return command.model_copy(update={"own": is_own(command.definition)})
    if isinstance(command, MachineImported):
        own, there = is_own(command.definition), _outputs_there(root, command)
        return command.model_copy(update={"own": own, "task_earlier": there})
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
    """Return the outputs that are older than the start of their task, for each task at work.

    A task without a time of its own started with its phase.
    """
    known = trusted(command.definition, command.machine)
    if known.tasks is None:
        return {}
    found = {
        str(one.get("id")): marks_before(
            outputs_of(root, known, one, {}).marks, one.get("started_at") or command.entered_at
        )
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
