"""The fields of ``workflow-state.json`` and their order, and unusual notations of its numbers."""

from __future__ import annotations

import json
import re
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


def convert_named_paths_to_lists(stage: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a stage's entry with its inputs and outputs as lists of paths.

    Also return the names of the fields that were objects. The published skill allows both forms, a
    list and an object such as ``"outputs": {"film": "stage-1/film.xyz"}``.
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
    """Return the ``session_config`` of a new workflow."""
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
    """Return the backend profiles that are used if a plan defines none."""
    return {
        "local": {
            "type": "local",
            "config": {"batch_type": "Shell", "context_type": "LocalContext"},
        }
    }


_NESTED = (dict, list)

Layout = dict[str, list[str]]
"""JSON pointer (RFC 6901) of an object → its keys in order."""


def record_key_order(value: Any, pointer: str = "") -> Layout:
    """Return the order of the keys of each object in ``value`` whose keys are not sorted.

    The result maps the JSON pointer of the object to its keys.
    """
    found: Layout = {}
    if isinstance(value, dict):
        keys = list(value)
        if keys != sorted(keys):
            found[pointer] = keys
    for key, child in _child_values(value):
        found.update(record_key_order(child, f"{pointer}/{escape_pointer_key(key)}"))
    return found


def restore_key_order(value: Any, layout: Layout, pointer: str = "") -> Any:
    """Return a copy of ``value`` with the keys of its objects in the recorded order.

    ``layout`` maps the JSON pointer of an object to its keys.
    """
    if isinstance(value, list):
        return [
            restore_key_order(child, layout, f"{pointer}/{i}")
            if child.__class__ in _NESTED
            else child
            for i, child in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    ordered = dict.fromkeys([key for key in layout.get(pointer, ()) if key in value]) | value
    return {
        key: restore_key_order(one, layout, f"{pointer}/{escape_pointer_key(key)}")
        if one.__class__ in _NESTED
        else one
        for key, one in ordered.items()
    }


def _child_values(value: Any) -> list[tuple[str, Any]]:
    """Return the values in an object or a list, each with its key or index."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [(str(index), child) for index, child in enumerate(value)]
    return []


def escape_pointer_key(key: str) -> str:
    """Return a key with the escapes that a JSON pointer requires."""
    return key.replace("~", "~0").replace("/", "~1")


Spelling = dict[str, str]
"""JSON pointer (RFC 6901) of a number → its text."""


def collect_number_spellings(text: str) -> Spelling:
    """Return the numbers in a JSON text that have another notation than wfctl would write.

    The result maps the JSON pointer of a number to its text, such as ``1.50``.
    """
    return dict(_find_unusual_spellings(json.loads(text, parse_float=_Float, parse_int=_Int), ""))


class _Float(str):
    """The original text of a JSON number with a fraction or an exponent."""

    @property
    def usual(self) -> str:
        return json.dumps(float(self))


class _Int(str):
    """The original text of a JSON integer."""

    @property
    def usual(self) -> str:
        return json.dumps(int(self))


def _find_unusual_spellings(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the JSON pointer and the text of each number with an unusual notation."""
    if isinstance(value, _Float | _Int):
        if value != value.usual:
            yield pointer, str(value)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _find_unusual_spellings(child, f"{pointer}/{escape_pointer_key(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_unusual_spellings(child, f"{pointer}/{index}")


def split_pointer(pointer: str) -> list[str]:
    """Return the keys of a JSON pointer, with its escapes removed."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_PLACE = r"0|[1-9][0-9]*"


def is_pointer(text: str) -> bool:
    """Return whether a string is a JSON pointer (RFC 6901).

    The empty string is a pointer to the whole document.
    """
    return re.fullmatch(_POINTER, text) is not None


def value_at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer.

    Raises ValueError for an invalid pointer, and LookupError or TypeError if no value exists there.
    """
    if not is_pointer(pointer):
        raise ValueError(
            "a JSON pointer must have a form such as /nu or /tasks/0, but this pointer is "
            f"{pointer!r:.80}"
        )
    for key in split_pointer(pointer):
        if isinstance(value, list) and not re.fullmatch(_PLACE, key):
            raise LookupError(f"expected a place in a list, found {key!r:.80}")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


#: Keys of the description of a change: the old and the new value.
_LEAF = frozenset({"old", "new"})


def collect_changes_by_field(change: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the changes of a stage in an amendment as a dictionary by field.

    In the amendment, ``old`` and ``new`` at the top level describe the change of ``depends_on``.
    Every other change is stored under the name of its field.
    """
    needs = {key: value for key, value in change.items() if key in _LEAF}
    others = {key: value for key, value in change.items() if key not in _LEAF}
    return {**({"depends_on": needs} if needs or not others else {}), **others}
