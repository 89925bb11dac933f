"""The environment variables that contain the parameters of a stage, and their size limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.sweeps.definition import VERIFY_PARAMETERS
from lifecycle.sweeps.work import Work
from lifecycle.words.limits import MAX_VARIABLE

PREFIX = "WFCTL_PARAM_"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
#: Parameters that only wfctl uses. Commands do not get them as variables.
_OURS = frozenset({"command", "verify"})
#: Maximum size in bytes of all environment variables of a job. Linux allows 2 MiB for variables and
#: arguments, and other variables of the user and the scheduler need a part of it.
MAX_VARIABLES = 1_000_000


def command_variables(work: Work) -> dict[str, str]:
    """Return the environment variables for the parameters of a stage's command.

    Numbers, true and false are written as in JSON. Lists, objects, null, and parameters whose names
    are not valid for variables are omitted.
    """
    return _build_variables(work.command_parameters)


def verify_variables(work: Work) -> dict[str, str]:
    """Return the environment variables that only the verify commands of a stage get."""
    return _build_variables(work.verify_values)


def _build_variables(values: Mapping[str, Any]) -> dict[str, str]:
    """Return an environment variable for each value that can be one."""
    return {
        f"{PREFIX}{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if isinstance(value, str | int | float) and _NAME.fullmatch(name) and name not in _OURS
    }


def find_oversized_variable(variables: Mapping[str, str]) -> tuple[str | None, int, int] | None:
    """Return the name of an environment variable that is too large, its size and the limit.

    Sizes are in bytes. The name is None if only all variables together are too large. Return None
    if no limit is exceeded.
    """
    sizes = {
        name: len(f"{name}={value}".encode(errors="replace")) for name, value in variables.items()
    }
    for name, size in sizes.items():
        if size > MAX_VARIABLE:
            return name, size, MAX_VARIABLE
    whole = sum(sizes.values()) + len(sizes)
    return (None, whole, MAX_VARIABLES) if whole > MAX_VARIABLES else None


def find_variable_problems(work: Work) -> Iterator[str]:
    """Yield a problem for each parameter that cannot be an environment variable.

    It is too large, or the verify commands cannot use it.
    """
    yield from _find_verify_parameter_problems(work)
    found = find_oversized_variable({**command_variables(work), **verify_variables(work)})
    if found is not None:
        name, size, most = found
        place = "parameters" if name is None else f"parameters.{name.removeprefix(PREFIX)}"
        of = "for all variables of a job" if name is None else f"with the name {name}"
        yield (
            f"{place}: expected at most {most:,} bytes {of}, found {size:,}; write the value into "
            "a file, and name the file in `inputs`"
        )


def _find_verify_parameter_problems(work: Work) -> Iterator[str]:
    """Yield a problem for each invalid value in `verify_parameters`.

    The verify commands get these values as environment variables.
    """
    given = work.parameters.get(VERIFY_PARAMETERS)
    if given is not None and not isinstance(given, dict):
        yield (
            f"parameters.{VERIFY_PARAMETERS}: expected an object of names and values, found "
            f"{given!r:.60}"
        )
    taken = {*work.parameters} | (work.value_names() or set())
    for name, value in work.verify_values.items():
        place = f"parameters.{VERIFY_PARAMETERS}.{name}"
        if not _NAME.fullmatch(name) or name in _OURS:
            yield f"{place}: expected a name of letters, digits and underscores"
        elif not isinstance(value, str | int | float):
            yield f"{place}: expected text, a number, true or false, found {value!r:.60}"
        if name in taken:
            yield (
                f"{place}: the parameters of the command also contain {name}; set {name} in "
                "only one place"
            )
