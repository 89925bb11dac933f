"""The variables by which a job sees the parameters of its stage, and their limits. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.sweeps.definition import own_parameters
from lifecycle.words.values import MAX_VARIABLE

PREFIX = "WFCTL_PARAM_"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
#: What tells wfctl how to run a stage is no parameter of the computation.
_OURS = frozenset({"command", "verify"})
#: Maximum number of bytes of all variables of a job. Linux takes 2 MiB, arguments included; the
#: rest is left to the variables of the login and of the scheduler.
MAX_VARIABLES = 1_000_000


def environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the parameters that are text, a number, or true or false.

    A number is spelled as in JSON, true and false as ``true`` and ``false``. Lists, objects, null,
    and names that no variable can have are left out.
    """
    return {
        f"{PREFIX}{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in own_parameters(parameters).items()
        if isinstance(value, str | int | float) and _NAME.fullmatch(name) and name not in _OURS
    }


def oversized(variables: Mapping[str, str]) -> tuple[str | None, int, int] | None:
    """Return the name of a variable that is too large, its size, and the limit, in bytes.

    The name is None if all of them together are too large. Returns None if all fit.
    """
    sizes = {
        name: len(f"{name}={value}".encode(errors="replace")) for name, value in variables.items()
    }
    for name, size in sizes.items():
        if size > MAX_VARIABLE:
            return name, size, MAX_VARIABLE
    whole = sum(sizes.values()) + len(sizes)
    return (None, whole, MAX_VARIABLES) if whole > MAX_VARIABLES else None


def problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield which parameter of a stage is too large for a program to be started with it."""
    found = oversized(environment(parameters))
    if found is not None:
        name, size, most = found
        place = "parameters" if name is None else f"parameters.{name.removeprefix(PREFIX)}"
        of = "for all variables of a job" if name is None else f"with the name {name}"
        yield (
            f"{place}: expected {most:,} bytes at most {of}, found {size:,}; put it into a file "
            "and name that among the inputs"
        )
