"""Advice about a valid plan: stages at which a run will stop, and values without effect.

Advice is not an error, because the author of the plan may intend it. The functions do no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import Any

from lifecycle.plan.fields import find_doubtful_parameters
from lifecycle.state.conditions import find_point_source_stages
from lifecycle.state.effort import HOUR, compute_round_cost
from lifecycle.state.session_budget import (
    estimate_stage_cost,
    is_over_session_budget,
    maximum_session_cost,
)
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import VERIFY_PARAMETERS
from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL
from lifecycle.sweeps.replicates import REPLICATE, SEED_VARIABLE
from lifecycle.sweeps.work import Work, build_work
from lifecycle.words.mandates import format_count, format_number
from lifecycle.words.plan_parameters import list_used_names
from lifecycle.words.rounds import LoopDefinition

#: A parameter in a shell command, together with the next character. A character such as ``:`` or
#: ``-`` introduces a default value.
_PARAMETER_USE = re.compile(r"\$(?:WFCTL_PARAM_(\w+)|\{WFCTL_PARAM_(\w+)(.?))", re.ASCII)
_COMMANDS = ("command", "task_verify")
_PREFIX = "WFCTL_PARAM_"
#: Parameters of the published protocol that agents read and commands do not use.
_READ_BY_AGENTS = frozenset({"software"})
_KEYS = ("WFCTL_TASK", "WFCTL_LIKE_FOLDER")


def list_advice(state: Workflow, scripts: str = "") -> list[str]:
    """Return advice about a workflow's plan, one sentence for each doubtful value.

    ``scripts`` is the text of all scripts that the workflow runs. They may use parameters.
    """
    found = [
        line
        for stage in state.stages.values()
        for line in (
            *find_doubtful_parameters({"id": stage.id, "parameters": stage.parameters}),
            *_find_commands_that_are_not_text(stage),
            *_find_windows_line_endings(stage),
            *_find_missing_verify(stage),
            *_find_unusable_values(state, stage, scripts),
            *_find_unused_seed(stage, scripts),
            *_find_verify_only_parameters(stage, scripts),
        )
    ]
    return [
        *found,
        *_find_unused_plan_parameters(state),
        *_find_low_loop_limits(state),
        *_find_budget_stops(state),
    ]


def group_parameters_by_consumer(parameters: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of a stage's parameters, grouped by their user.

    The groups are "wfctl", "command", and "verify" for parameters that only the verify commands
    get. The verify commands also get the parameters of the command.
    """
    read = [name for name in parameters if name in PARAMETERS_OF_WFCTL]
    own = [name for name in parameters if name not in read]
    return {"wfctl": read, "command": own, "verify": [*build_work("", parameters).verify_values]}


def _find_commands_that_are_not_text(stage: Stage) -> Iterator[str]:
    """Yield advice for each command that is not a string."""
    for name in (*_COMMANDS, "verify"):
        value = stage.parameters.get(name)
        if value is not None and not isinstance(value, str):
            yield f"{stage.id}: parameters.{name} is {value!r}, not a string; bash runs `{value}`"


def _find_windows_line_endings(stage: Stage) -> Iterator[str]:
    """Yield advice for each command that has Windows line endings."""
    for name in (*_COMMANDS, "verify"):
        lines = str(stage.parameters.get(name) or "").split("\n")
        if any(line.endswith("\r") for line in lines):
            yield (
                f"{stage.id}: parameters.{name} has lines that end with a carriage return (\\r), "
                "which bash reads as part of the last word; use Unix line ends"
            )


def _find_missing_verify(stage: Stage) -> Iterator[str]:
    """Yield advice if the stage has success criteria but no verify command."""
    if stage.success_criteria and not stage.parameters.get("verify"):
        yield (
            f"{stage.id}: has success_criteria but no parameters.verify, so `wfctl run` stops at "
            "this stage until a person has checked the results"
        )


def _find_unusable_values(state: Workflow, stage: Stage, scripts: str) -> Iterator[str]:
    """Yield advice for variables without a value, and for values that nothing uses."""
    commands = {
        name: text for name in _COMMANDS if isinstance(text := stage.parameters.get(name), str)
    }
    names = _value_names(state, stage)
    yield from _find_missing_values(state, stage, commands)
    if "command" not in commands or _is_parameter_used(None, scripts):
        return
    numbered = {REPLICATE} if stage.work.replicates > 1 else set()
    for name in sorted((names or set()) - PARAMETERS_OF_WFCTL - _READ_BY_AGENTS - numbered):
        verify = str(stage.parameters.get("verify") or "")
        texts = (*commands.values(), verify, scripts)
        # The key of a task and the folder of its partner contain all values of the map. A command
        # that uses the key therefore uses every value.
        by_key = _is_map_value(stage, name) and any(key in text for text in texts for key in _KEYS)
        if not by_key and not any(_is_parameter_used(name, text) for text in texts):
            of = (
                f"the value {name} of the map"
                if _is_map_value(stage, name)
                else f"parameters.{name}"
            )
            yield (
                f"{stage.id}: {of} has no effect, because neither the command nor an existing "
                f"script names {_PREFIX}{name}"
            )


def _find_unused_seed(stage: Stage, scripts: str) -> Iterator[str]:
    """Yield advice if the command of a sweep with replicates never uses its seed."""
    text = f"{stage.parameters.get('command')} {scripts}"
    sources = (SEED_VARIABLE, f"{_PREFIX}{REPLICATE}", *_KEYS)
    if stage.work.replicates > 1 and not any(name in text for name in sources):
        yield (
            f"{stage.id}: neither the command nor an existing script names {SEED_VARIABLE}, the "
            "seed of each replicate, so the replicates have equal results, or results that nobody "
            "can reproduce"
        )


def _find_missing_values(
    state: Workflow, stage: Stage, commands: Mapping[str, str]
) -> Iterator[str]:
    """Yield advice for each variable that a command uses although not every run has its value."""
    names = _value_names(state, stage)
    if names is None:
        return
    of_points = _points_work(state, stage)
    lacking = (of_points.value_names() or set()) - (of_points.common_value_names() or set())
    for name, text in commands.items():
        own = {*stage.work.verify_values} if name == "task_verify" else set()
        known = names | own
        for asked in sorted(_find_parameters_without_default(text)):
            use = f"{stage.id}: parameters.{name} uses ${_PREFIX}{asked}"
            if asked not in known:
                yield (
                    f"{use}, which has no value when {stage.work.run_name} runs; values exist for "
                    f"{_format_names(known)}"
                )
            elif asked in lacking - {*stage.parameters}:
                yield (
                    f"{use}, but some points have no value {asked}. Set a default for these "
                    f"points in parameters.{asked}"
                )


def _points_work(state: Workflow, stage: Stage) -> Work:
    """Return the computation of the stage whose points the given stage uses."""
    return [stage, *find_point_source_stages(state, stage)][-1].work


def _find_verify_only_parameters(stage: Stage, scripts: str) -> Iterator[str]:
    """Suggest `verify_parameters` for each parameter that only a verify command uses."""
    command, judging = (
        " ".join(str(stage.parameters.get(name) or "") for name in names)
        for names in (("command",), ("verify", "task_verify"))
    )
    others = f"{command} {scripts}"
    if not command or _is_parameter_used(None, others):
        return
    aside = PARAMETERS_OF_WFCTL | {*list_used_names(stage.parameters)}
    for name in (name for name in stage.parameters if name not in aside):
        if _is_parameter_used(name, judging) and not _is_parameter_used(name, others):
            yield (
                f"{stage.id}: only a verify command uses {_PREFIX}{name}, but a new value makes "
                f"wfctl compute the stage again. If you move {name} to "
                f"parameters.{VERIFY_PARAMETERS}, a new value makes wfctl only check the results "
                "again"
            )


def _value_names(state: Workflow, stage: Stage) -> set[str] | None:
    """Return the names of the values that a stage's command gets.

    Return None if the names are unknown, because a file contains the points of the stage.
    """
    own = {
        name
        for name, value in stage.work.command_parameters.items()
        if isinstance(value, str | int | float) and name not in _COMMANDS and name != "verify"
    }
    of_points = _points_work(state, stage).value_names()
    return None if of_points is None else own | of_points


def _is_map_value(stage: Stage, name: str) -> bool:
    """Return whether a value comes from the stage's map (the definition of its points)."""
    return name not in stage.parameters


def _find_parameters_without_default(text: str) -> set[str]:
    """Return the parameters that a shell command uses without giving a default value."""
    found = _PARAMETER_USE.finditer(text)
    return {one[1] or one[2] for one in found if one[1] or one[3] not in ("-", ":", "+", "=", "?")}


def _is_parameter_used(name: str | None, text: str) -> bool:
    """Return whether the text of a script or command uses the parameter ``name``.

    If ``name`` is None, return whether the text builds names of parameters at run time, for example
    to read all of them.
    """
    if name is None:
        return re.search(rf"{_PREFIX}(?![A-Za-z0-9_])", text) is not None
    return re.search(rf"{_PREFIX}{re.escape(name)}(?!\w)", text, re.ASCII) is not None


def _format_names(names: set[str] | None) -> str:
    """Return the names as a comma-separated list, or "no values" for an empty list."""
    return ", ".join(sorted(names or ())) or "no values"


def _find_unused_plan_parameters(state: Workflow) -> Iterator[str]:
    """Yield advice for each parameter of the plan that no stage uses."""
    stages = state.stages.values()
    used = {name for stage in stages for name in list_used_names(stage.parameters)}
    for name in state.parameters:
        if name not in used:
            yield (
                f"parameters.{name}: no stage uses this parameter of the plan. List {name} in "
                "parameters.use of each stage that needs the value"
            )


def _find_low_loop_limits(state: Workflow) -> Iterator[str]:
    """Yield advice for each loop whose task or cost limit will end it before its last round."""
    for name in state.loops:
        loop = state.loop(name)
        listed = state.stages[loop.points].work.listed_points()
        if not listed:
            continue
        first = compute_round_cost(state, loop, len(listed))
        more = compute_round_cost(state, loop, loop.each or 1)
        said = [*_advise_on_low_loop_limit("tasks", loop, loop.tasks, first[0], more[0])]
        if first[1] is not None and more[1] is not None:
            hours = first[1] / HOUR, more[1] / HOUR
            said += _advise_on_low_loop_limit("core_hours", loop, loop.core_hours, *hours)
        if said:
            yield f"rounds.{name}: {'; '.join(said)}"


def _advise_on_low_loop_limit(
    field: str, loop: LoopDefinition, limit: float | None, first: float, more: float
) -> Iterator[str]:
    """Yield advice if a limit of a loop is too low for all its rounds.

    ``first`` is the need of the first round, ``more`` the maximum need of each later round.
    """
    needed = first + (loop.at_most - 1) * more
    if limit is None or limit >= needed:
        return
    rounds = 1 + int((limit - first) // more)
    enough = f"enough for {rounds} of its {format_count(loop.at_most, 'round')}"
    enough += f" with {format_count(loop.each or 1, 'point')} each"
    if limit < first:
        enough = "not enough for round 1"
    longest = " if each task takes its whole time_limit" if field == "core_hours" else ""
    need = format_number(needed)
    yield f"{field} = {format_number(limit)} is {enough}{longest} (all need {need})"


def _find_budget_stops(state: Workflow) -> Iterator[str]:
    """Yield advice about stages that the budget of a session does not cover.

    These are stages whose cost alone exceeds the budget. Without such a stage, name the stage
    before which `wfctl run` will stop.
    """
    budget, cost = maximum_session_cost(state), 0.0
    beyond = [stage for stage in state.stages.values() if is_over_session_budget(state, stage)]
    for stage in beyond:
        yield (
            f"{stage.id}: only a person at a terminal can start the stage, because its estimated "
            f"cost {estimate_stage_cost(state, stage):g} is above the session budget {budget:g}. "
            "Increase session_config.session_budget"
        )
    for stage in _iterate_in_run_order(state) if not beyond else ():
        cost += estimate_stage_cost(state, stage)
        if cost > budget:
            yield (
                f"the session budget of {budget:g} is used up before {stage.id} starts. Unless a "
                f"person at a terminal uses `wfctl run`, run it again to continue with {stage.id}, "
                "or use `wfctl run --autonomous`"
            )
            return


def _iterate_in_run_order(state: Workflow) -> Iterator[Stage]:
    """Yield the stages in the order in which `wfctl run` starts them one after another.

    This is the first stage of the plan whose dependencies are completed, and so on.
    """
    stages = list(state.stages.values())
    places = {stage.id: place for place, stage in enumerate(stages)}
    sorter = TopologicalSorter({stage.id: stage.depends_on for stage in stages})
    sorter.prepare()
    ready: list[int] = []
    while sorter.is_active():
        for id_ in sorter.get_ready():
            heappush(ready, places[id_])
        stage = stages[heappop(ready)]
        yield stage
        sorter.done(stage.id)
