"""The fields of ``workflow-state.json``: their names, their order, and the spelling of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

WORKFLOW_FIELDS = (
    "workflow_id",
    "version",
    "workflow_status",
    "created",
    "updated",
    "experiment_design",
    "workflow_plan",
    "amendments",
    "session_config",
    "default_backend",
    "backend_profiles",
    "stages",
)
STAGE_FIELDS = (
    "id",
    "name",
    "status",
    "depends_on",
    "backend",
    "inputs",
    "outputs",
    "parameters",
    "success_criteria",
    "started_at",
    "completed_at",
    "retry_count",
    "last_error",
    "running_process",
    "checkpoint",
)
#: The fields of a stage that are lists of paths.
PATHS = ("inputs", "outputs")
DEFINITIONAL = frozenset(
    {"name", "depends_on", "inputs", "parameters", "success_criteria", "backend"}
)


def with_listed_paths(stage: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a stage's entry with its paths as lists, and the fields that gave each path a name.

    The published skill writes ``"outputs": {"film": "stage-1/film.xyz"}`` as well as a list.
    """
    if not isinstance(stage, dict):
        return stage, ()
    named = tuple(
        field
        for field in PATHS
        if isinstance(paths := stage.get(field), dict)
        and paths
        and all(isinstance(path, str) for path in paths.values())
    )
    return {**stage, **{field: list(stage[field].values()) for field in named}}, named


def default_session_config() -> dict[str, Any]:
    """Return ``session_config`` as a new workflow starts with it."""
    return {
        "autonomous": False,
        "session_budget": 6,
        "session_count": 0,
        "session_id": None,
        "session_cost": 0,
        "exit_reason": None,
        "stage_weights": {"sync": 1, "async": 1.5, "error_cycle": 2, "diagnostic": 2},
    }


def default_profiles() -> dict[str, Any]:
    """Return the backend profiles of a plan that names none."""
    return {
        "local": {
            "type": "local",
            "config": {"batch_type": "Shell", "context_type": "LocalContext"},
        }
    }


Layout = dict[str, list[str]]
"""JSON pointer (RFC 6901) of an object → its keys in order."""


def layout_of(value: Any, pointer: str = "") -> Layout:
    """Return the order of the keys of every object below ``value`` that is not sorted."""
    found: Layout = {}
    if isinstance(value, dict):
        keys = list(value)
        if keys != sorted(keys):
            found[pointer] = keys
    for key, child in _children(value):
        found.update(layout_of(child, f"{pointer}/{escaped(key)}"))
    return found


def restore(value: Any, layout: Layout, pointer: str = "") -> Any:
    """Return ``value`` with the keys of its objects in the order of ``layout``."""
    if isinstance(value, list):
        return [restore(child, layout, f"{pointer}/{i}") for i, child in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = [key for key in layout.get(pointer, ()) if key in value]
    rest = [key for key in value if key not in known]
    return {
        key: restore(value[key], layout, f"{pointer}/{escaped(key)}") for key in (*known, *rest)
    }


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [(str(index), child) for index, child in enumerate(value)]
    return []


def escaped(key: str) -> str:
    """Return a key as a JSON pointer has it."""
    return key.replace("~", "~0").replace("/", "~1")


Spelling = dict[str, str]
"""JSON pointer (RFC 6901) of a number → its letters."""


def spelling_of(text: str) -> Spelling:
    """Return the numbers of a valid JSON text that would be written in other letters today."""
    return dict(_spelled(json.loads(text, parse_float=_Float, parse_int=_Int), ""))


class _Float(str):
    """The letters of a number with a fraction or an exponent."""

    @property
    def usual(self) -> str:
        return json.dumps(float(self))


class _Int(str):
    """The letters of a whole number."""

    @property
    def usual(self) -> str:
        return json.dumps(int(self))


def _spelled(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Float | _Int):
        if value != value.usual:
            yield pointer, str(value)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _spelled(child, f"{pointer}/{escaped(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _spelled(child, f"{pointer}/{index}")


def keys_of(pointer: str) -> list[str]:
    """Return the keys that a pointer is made of."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def value_at(value: Any, pointer: str) -> Any:
    """Return the value that a pointer leads to; raises LookupError, TypeError, ValueError."""
    for key in keys_of(pointer):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


#: Keys of what a field was and is.
_LEAF = frozenset({"old", "new"})


def rewired_fields(change: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return old and new by the field of a stage that a rewiring changes.

    What it depends on stands at the top, every other field below its name.
    """
    needs = {key: value for key, value in change.items() if key in _LEAF}
    others = {key: value for key, value in change.items() if key not in _LEAF}
    return {**({"depends_on": needs} if needs or not others else {}), **others}
