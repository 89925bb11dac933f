"""A stage's parameters as its command sees them: environment variables ``WFCTL_PARAM_<name>``.

So a number stands once, in the plan, and an amendment that changes it changes what runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lifecycle.sweeps.definition import own_parameters

PREFIX = "WFCTL_PARAM_"
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
