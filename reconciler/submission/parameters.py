"""What a stage's command sees of its definition: parameters and places, as environment variables.

A parameter is ``WFCTL_PARAM_<name>``: so a number stands once, in the plan, and an amendment that
changes it changes what runs. ``WFCTL_ROOT`` and ``WFCTL_INPUT_<n>`` are where the command finds
its inputs.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lifecycle.sweeps.definition import own_parameters

PREFIX = "WFCTL_PARAM_"
ROOT, INPUT = "WFCTL_ROOT", "WFCTL_INPUT_"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
#: What tells wfctl how to run a stage is no parameter of the computation.
_OURS = frozenset({"command", "verify"})


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


def places(root: Path, inputs: Iterable[str]) -> dict[str, str]:
    """Return the variables of the root and of the inputs for what runs in the root itself."""
    found = {f"{INPUT}{n}": str(root / path) for n, path in enumerate(inputs, 1)}
    return {ROOT: str(root), **found}


def placed(given: Mapping[str, Any], inputs: Iterable[str]) -> dict[str, Any]:
    """Return a submission whose job says the same of the copy that it has of the root.

    A job finds its inputs below a folder of its own, on every machine and in a container, at the
    paths that they have below the root. An input that did not come has no variable.
    """
    result = copy.deepcopy(dict(given))
    lines = [f'export {ROOT}="$REMOTE_ROOT"']
    for n, path in enumerate(inputs, 1):
        place = f'"$REMOTE_ROOT"/{shlex.quote(path)}'
        lines.append(f"[ ! -e {place} ] || export {INPUT}{n}={place}")
    resources = result.get("resources")
    if isinstance(resources, dict):
        before = resources.get("prepend_script") or []
        result["resources"] = {**resources, "prepend_script": [*lines, *before]}
    return result
