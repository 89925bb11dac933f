"""What a colleague would say of a plan that is sound: where it stops, and what does nothing. Pure.

Advice is no error: a plan may mean what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.plan.fields import READ, doubtful_parameters
from lifecycle.state.conditions import budget_of, estimate, is_beyond
from lifecycle.state.effort import HOUR, of_a_round
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep, own_parameters
from lifecycle.sweeps.points import UnusableMap, points
from lifecycle.words.mandates import counted, number
from lifecycle.words.rounds import LoopDefinition

#: A parameter as a shell asks for it, and what follows: ``:-`` gives a value if it is unset.
_ASKED = re.compile(r"\$(?:WFCTL_PARAM_(\w+)|\{WFCTL_PARAM_(\w+)(.?))", re.ASCII)
#: Ways of a map whose points stand in the plan itself.
_HERE = ("points", "grid", "zip")
_COMMANDS = ("command", "task_verify")
_PREFIX = "WFCTL_PARAM_"
_KEYS = ("WFCTL_TASK", "WFCTL_LIKE_FOLDER")


def advice(state: Workflow, scripts: str = "") -> list[str]:
    """Return what may be meant otherwise in the definition of a workflow, a sentence each.

    ``scripts`` is the text of the files that it runs: they may read a parameter by its name.
    """
    found = [
        line
        for stage in state.stages.values()
        for line in (
            *doubtful_parameters({"id": stage.id, "parameters": stage.parameters}),
            *_not_text(stage),
            *_carriage_returns(stage),
            *_unjudged(stage),
            *_values(state, stage, scripts),
        )
    ]
    return [*_unchecked_modules(state), *found, *_loops(state), *_budget(state)]


def parameters_of(parameters: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the parameters that wfctl reads, and of those that are the command's."""
    read = [name for name in parameters if name in READ]
    return {"wfctl": read, "command": [name for name in parameters if name not in read]}


def _not_text(stage: Stage) -> Iterator[str]:
    for name in (*_COMMANDS, "verify"):
        value = stage.parameters.get(name)
        if value is not None and not isinstance(value, str):
            yield f"{stage.id}: parameters.{name} is {value!r}, and no text: bash runs `{value}`"


def _carriage_returns(stage: Stage) -> Iterator[str]:
    """Say which commands have lines that end as on Windows."""
    for name in (*_COMMANDS, "verify"):
        lines = str(stage.parameters.get(name) or "").split("\n")
        if any(line.endswith("\r") for line in lines):
            yield (
                f"{stage.id}: parameters.{name} has lines that end with a carriage return (\\r), "
                "which bash takes for a part of the last word; save it with the line ends of Unix"
            )


def _unchecked_modules(state: Workflow) -> Iterator[str]:
    """Say where modules are loaded of which nobody notices that they are missing."""
    places = {
        f"backend_profiles.{name}.resource_defaults": profile.get("resource_defaults")
        for name, profile in state.backend_profiles.items()
    } | {
        f"{stage.id}: parameters.resource_overrides": stage.parameters.get("resource_overrides")
        for stage in state.stages.values()
    }
    for place, given in places.items():
        if isinstance(given, Mapping) and given.get("module_list"):
            yield (
                f"{place}.module_list: nothing fails if one of these modules does not load; name "
                "them in environment.modules instead, which is checked before the command runs"
            )


def _unjudged(stage: Stage) -> Iterator[str]:
    if stage.success_criteria and not stage.parameters.get("verify"):
        yield (
            f"{stage.id}: success_criteria without parameters.verify: somebody must judge them; "
            "`wfctl run` will stop there"
        )


def _values(state: Workflow, stage: Stage, scripts: str) -> Iterator[str]:
    """Say which values the commands ask for that nobody gives, and which they leave unused."""
    commands = {
        name: text for name in _COMMANDS if isinstance(text := stage.parameters.get(name), str)
    }
    names = _names(state, stage)
    for name, text in commands.items():
        for asked in sorted(_without_default(text)) if names is not None else ():
            if asked not in (names or ()):
                of = "each point" if is_sweep(stage.parameters) else "the command"
                yield (
                    f"{stage.id}: parameters.{name} asks for ${_PREFIX}{asked}, which has no "
                    f"value: {of} runs without it; there are {_listed(names)}"
                )
    if "command" not in commands or _is_used(None, scripts):
        return
    for name in sorted((names or set()) - READ):
        verify = str(stage.parameters.get("verify") or "")
        texts = (*commands.values(), verify, scripts)
        # The key of a task, and the folder of its partner, are made of all values of the map.
        by_key = _is_of_map(stage, name) and any(key in text for text in texts for key in _KEYS)
        if not by_key and not any(_is_used(name, text) for text in texts):
            of = "a value of the map" if _is_of_map(stage, name) else f"parameters.{name}"
            yield (
                f"{stage.id}: {name} is {of} that nothing here uses: neither its command nor a "
                f"script that is there names {_PREFIX}{name}"
            )


def _names(state: Workflow, stage: Stage) -> set[str] | None:
    """Return the names that have a value for a stage's command; None if a file holds them."""
    own = {
        name
        for name, value in own_parameters(stage.parameters).items()
        if isinstance(value, str | int | float) and name not in _COMMANDS and name != "verify"
    }
    if not is_sweep(stage.parameters):
        return own
    of_points = _of_points(state, stage.parameters[MAP])
    return None if of_points is None else own | of_points


def _of_points(state: Workflow, given: Mapping[str, Any]) -> set[str] | None:
    """Return the names of a map's values; those of a file, or of no sweep, are not known here."""
    seen: set[str] = set()
    while "like" in given and str(given["like"]) not in seen:
        seen.add(str(given["like"]))
        partner = state.stages.get(str(given["like"]))
        given = partner.parameters.get(MAP, {}) if partner is not None else {}
    if not any(way in given for way in _HERE):
        return None
    try:
        return {*points(given)[0].values}
    except UnusableMap:
        return None  # a plan that is refused says so itself


def _is_of_map(stage: Stage, name: str) -> bool:
    return name not in stage.parameters


def _without_default(text: str) -> set[str]:
    found = _ASKED.finditer(text)
    return {one[1] or one[2] for one in found if one[1] or one[3] not in ("-", ":", "+", "=", "?")}


def _is_used(name: str | None, text: str) -> bool:
    """Whether a text asks for a parameter; without a name, for those whose names it puts together.

    So a script may do that reads all of them.
    """
    if name is None:
        return re.search(rf"{_PREFIX}(?![A-Za-z0-9_])", text) is not None
    return re.search(rf"{_PREFIX}{re.escape(name)}(?!\w)", text, re.ASCII) is not None


def _listed(names: set[str] | None) -> str:
    return ", ".join(sorted(names or ())) or "no values"


def _loops(state: Workflow) -> Iterator[str]:
    """Say which loops have limits that end them before all of their rounds could be computed."""
    for name in state.loops:
        loop = state.loop(name)
        given = state.stages[loop.points].parameters[MAP]
        if not any(way in given for way in _HERE):
            continue
        first = of_a_round(state, loop, len(points(given)))
        more = of_a_round(state, loop, loop.each or 1)
        said = [*_too_few("tasks", loop, loop.tasks, first[0], more[0])]
        if first[1] is not None and more[1] is not None:
            hours = first[1] / HOUR, more[1] / HOUR
            said += _too_few("core_hours", loop, loop.core_hours, *hours)
        if said:
            yield f"rounds.{name}: {'; '.join(said)}"


def _too_few(
    field: str, loop: LoopDefinition, limit: float | None, first: float, more: float
) -> Iterator[str]:
    """Say that a limit is less than what all rounds need, whole ones with the most points."""
    needed = first + (loop.at_most - 1) * more
    if limit is None or limit >= needed:
        return
    rounds = 1 + int((limit - first) // more)
    enough = f"enough for {rounds} of its {counted(loop.at_most, 'round')}"
    enough += f" with {counted(loop.each or 1, 'point')} each"
    if limit < first:
        enough = "not enough for round 1"
    longest = " if each task takes its whole time_limit" if field == "core_hours" else ""
    yield f"{field} = {number(limit)} is {enough}{longest} (all need {number(needed)})"


def _budget(state: Workflow) -> Iterator[str]:
    """Say which stages no session affords; else where a plain run stops before all is done."""
    budget = left = budget_of(state)
    beyond = [stage for stage in state.stages.values() if is_beyond(state, stage)]
    for stage in beyond:
        yield (
            f"{stage.id}: it is estimated at {estimate(state, stage):g}, and a session has a "
            f"budget of {budget:g}: no session begins it; raise session_config.session_budget"
        )
    for stage in state.stages.values() if not beyond else ():
        left -= estimate(state, stage)
        if left < 0:
            yield (
                f"a session has a budget of {budget:g}: `wfctl run` stops before {stage.id}, and "
                "goes on when it is called again; `wfctl run --autonomous` goes on by itself"
            )
            return
