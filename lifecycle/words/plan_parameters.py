"""Parameters of the whole plan, which several stages use.

A stage names the parameters of the plan that it uses in ``parameters.use``. In the state of a
workflow, the parameters of the stage contain the values of these parameters. Commands, digests and
reports therefore treat them as parameters of the stage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

#: Name of the field of a plan with its parameters, and of the parameter of a stage that lists the
#: parameters of the plan that the stage uses.
PLAN_PARAMETERS = "parameters"
USE = "use"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


def list_used_names(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of the plan's parameters that a stage with these parameters uses."""
    found = parameters.get(USE)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def add_plan_values(parameters: dict[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a stage with the values of the plan's parameters that it uses.

    ``plan`` has the parameters of the plan. A value that the stage already has stays unchanged.
    """
    names = [n for n in list_used_names(parameters) if n in plan and n not in parameters]
    return {**parameters, **{name: plan[name] for name in names}} if names else parameters


def remove_plan_values(parameters: dict[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a stage without the values of the plan's parameters."""
    names = {*list_used_names(parameters)} & {*plan}
    return {n: v for n, v in parameters.items() if n not in names} if names else parameters


def find_plan_parameter_problems(
    plan: Any, stages: Iterable[tuple[str, Mapping[str, Any]]], reserved: Collection[str]
) -> Iterator[str]:
    """Yield the problems of the plan's parameters and of their use in the stages.

    ``stages`` has the id and the parameters of each stage. A parameter of the plan cannot have one
    of the ``reserved`` names.
    """
    if plan is not None and not isinstance(plan, dict):
        yield f"{PLAN_PARAMETERS}: expected an object of names and values, found {plan!r:.80}"
        return
    for name, value in (plan or {}).items():
        yield from _find_value_problems(f"{PLAN_PARAMETERS}.{name}", name, value, reserved)
    for id_, parameters in stages:
        for problem in _find_use_problems(parameters, plan):
            yield f"{id_}.{PLAN_PARAMETERS}.{problem}"


def _find_value_problems(
    place: str, name: str, value: Any, reserved: Collection[str]
) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"{place}: expected a name of letters, digits and underscores"
    elif name in reserved:
        yield f"{place}: wfctl itself uses this name in the parameters of stages; choose another"
    if not isinstance(value, str | int | float):
        yield f"{place}: expected text, a number, true or false, found {value!r:.60}"


def _find_use_problems(
    parameters: Mapping[str, Any], plan: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the problems of the list of used parameters of one stage.

    In a workflow whose plan has no parameters, ``use`` may be any value for the command.
    """
    given = parameters.get(USE)
    names = list_used_names(parameters)
    if given is not None and (not isinstance(given, list) or len(names) < len(given)):
        if plan is not None or isinstance(given, list):
            yield f"{USE}: expected a list of names of the plan's parameters, found {given!r:.60}"
        return
    known = plan or {}
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            yield f"{USE}: the plan has no parameter {name}; its parameters are: {listed}"
        elif name in parameters and json.dumps(parameters[name]) != json.dumps(known[name]):
            yield (
                f"{name}: the stage cannot set its own value, because it uses the parameter {name} "
                f"of the plan. Change parameters.{name} of the plan, or remove {name} from "
                f"parameters.{USE}"
            )
