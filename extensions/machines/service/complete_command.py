"""Add data to a command that the rules of machines cannot collect themselves.

The data are digests and marks of files, and the name of the agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from extensions.machines.rules.definition import MOST_ROUNDS, Definition, load_trusted_definition
from extensions.machines.rules.errors import InvalidDefinition, InvalidInput
from extensions.machines.rules.machine import Machine, tasks_in
from extensions.machines.rules.path import marks_before
from extensions.machines.rules.payload import (
    MachineCreated,
    MachineImported,
    MachineRecorded,
    MachineTaskChanged,
    MachineUpdated,
)
from extensions.machines.rules.soundness import load_definition
from extensions.machines.service import guard_facts
from extensions.machines.service.guard_facts import collect_task_output_fact
from lifecycle.payload.base import Payload
from service.root.paths_within_root import OutsideRoot, content_within

#: Names of the built-in definitions, in the order in which they are listed.
SHIPPED = ("feature", "debug", "refactor", "oneshot", "discovery", "dotagent", "conductor")


#: The configuration file of a repository for conductor tracks, and the field with the limit of a
#: single track.
_CONFIG, _LIMIT = "conductor/config.json", "loop_state.max_fix_cycles"


@cache  # The definition never changes, and a long-lived process needs it several times.
def load_shipped_definition(name: str) -> Definition:
    """Return a built-in definition. Raise `InvalidInput` for an unknown name."""
    from service.documents.strict_yaml import load as decoded

    if name not in SHIPPED:
        raise InvalidInput(
            (
                f"the machine type {name!r} does not exist. Available types: "
                f"{', '.join(SHIPPED)}. To use your own type, give its file with --definition "
                "FILE."
            ),
            type=name,
            known=list(SHIPPED),
        )
    source = files("extensions.machines.rules") / "definitions" / f"{name}.yaml"
    return load_definition(decoded(source.read_text("utf-8")), name)


def is_user_defined(data: Mapping[str, Any]) -> bool:
    """Return whether a definition is user-defined.

    A built-in definition with other limits for its loops does not count as user-defined.
    """
    if data.get("id") not in SHIPPED:
        return True
    known, there = load_trusted_definition(data), load_shipped_definition(str(data["id"]))
    same = known.with_limits({name: loop.limit for name, loop in there.loops.items()})
    return same != there or list(known.phases) != list(there.phases)


def apply_repository_limit(definition: Definition, root: Path) -> Definition:
    """Return the definition with the loop limit that the repository's configuration sets.

    The definition is returned unchanged if it is not a conductor track, or if no valid limit is
    set.
    """
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


def load_definition_file(source: str) -> Definition:
    """Return the definition in a JSON, YAML or TOML file, or on standard input (``-``).

    Raises `NotFound` if the file does not exist, `UnreadablePlan` if it cannot be decoded, and
    `InvalidDefinition` if its content is not valid.
    """
    from lifecycle.errors import InvalidPlan
    from service.documents.plan_file import read_plan

    try:
        return load_definition(read_plan(source), source)
    except InvalidPlan as error:
        raise InvalidDefinition(source, error.data["problems"]) from error


def complete_command(root: Path, agent: str, command: Payload, state: Machine | None) -> Payload:
    """Return the command with digests, marks of files, and the name of the agent.

    ``agent`` is the name of the caller. It is used when the command starts a phase without an
    agent.
    """
    if isinstance(command, MachineUpdated):
        found = guard_facts.compute_digests(root, command)
        return command.model_copy(update={"digests": found}) if found else command
    if isinstance(command, MachineCreated):
        return command.model_copy(update={"own": is_user_defined(command.definition)})
    if isinstance(command, MachineImported):
        own, there = is_user_defined(command.definition), _find_earlier_outputs(root, command)
        return command.model_copy(update={"own": own, "task_earlier": there})
    if isinstance(command, MachineRecorded) and state is not None:
        return _with_agent(command, state, agent)
    if isinstance(command, MachineTaskChanged) and state is not None:
        return _add_earlier_output_marks(root, command, state)
    return command


def _add_earlier_output_marks(
    root: Path, command: MachineTaskChanged, state: Machine
) -> MachineTaskChanged:
    """Return the command with marks of output files that are older than the task's start."""
    tasks = state.definition.tasks
    if tasks is None or command.changes.get("status") != tasks.running:
        return command
    task = {**(state.task(command.task) or {}), "id": command.task, **command.changes}
    marks = collect_task_output_fact(root, state.definition, task, {}).marks
    return command.model_copy(update={"earlier": dict(marks)})


def _find_earlier_outputs(root: Path, command: MachineImported) -> dict[str, dict[str, str]]:
    """Return the outputs of running tasks that are older than the start of their task.

    The result maps each task to its files and their marks. A task without a start time is assumed
    to have started with its phase.
    """
    known = load_trusted_definition(command.definition, command.machine)
    if known.tasks is None:
        return {}
    found = {
        str(one.get("id")): marks_before(
            collect_task_output_fact(root, known, one, {}).marks,
            one.get("started_at") or command.entered_at,
        )
        for one in tasks_in(command.document, known.tasks)
        if one.get("status") == known.tasks.running
    }
    return {task: marks for task, marks in found.items() if marks}


def _with_agent(command: MachineRecorded, state: Machine, agent: str) -> MachineRecorded:
    """Return the command with the name of its agent.

    If the event starts a phase that has no agent of its own, this is the name of the caller.
    """
    kind = state.definition.events.get(command.name)
    if kind is None or not kind.starts or state.is_final or "agent" in command.data:
        return command
    if "agent" not in kind.data or state.definition.phases[state.phase].agent is not None:
        return command
    return command.model_copy(update={"data": {**command.data, "agent": agent}})
