"""Shapes: what a field of a machine's state may hold, as data.

``text``, ``flag``, ``number``, ``list``, ``object``, ``any``; ``"a|b|c"`` one of these texts;
an object of shapes; ``[shape]`` a list of it; ``{"*": shape}`` an object with any keys. Every
field may be missing or null, and fields that no shape names are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from extensions.machines.rules.path import Steps

Shape = Any
"""A name, a choice, an object of shapes, or a list with one shape."""

_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "flag": (bool,),
    "number": (int, float),
    "list": (list,),
    "object": (dict,),
    "any": (object,),
}
#: Names of types that differ in JSON Schema.
_WORDS = {"text": "string", "flag": "boolean", "list": "array"}


def list_shape_faults(shape: Shape, place: str) -> list[str]:
    """Return the problems of a shape (a description of a value's structure)."""
    if isinstance(shape, str):
        known = shape in _TYPES or "|" in shape
        return (
            []
            if known
            else [
                (
                    f"{place}: unknown type {shape!r}; expected {', '.join(_TYPES)}, or "
                    "alternatives such as a|b"
                )
            ]
        )
    if isinstance(shape, dict):
        return [
            fault
            for key, child in shape.items()
            for fault in list_shape_faults(child, f"{place}.{key}")
        ]
    if isinstance(shape, list) and len(shape) == 1:
        return list_shape_faults(shape[0], f"{place}[]")
    return [f"{place}: expected the name of a type, an object, or a list with one type"]


def find_shape_at(shape: Shape, steps: Steps) -> Shape | None:
    """Return the shape (expected structure) of the value at a path, or None.

    None means that the shape does not define the path.
    """
    for step in steps:
        if shape in ("any", "object", "list"):
            return "any"
        if isinstance(step, int):
            shape = shape[0] if isinstance(shape, list) else None
        else:
            shape = shape.get(step, shape.get("*")) if isinstance(shape, dict) else None
    return shape


def nearest_name(shape: Shape, steps: Steps) -> str | None:
    """Return the known field name that a path probably misspells, or None."""
    for number, step in enumerate(steps):
        here = find_shape_at(shape, steps[:number])
        if isinstance(here, dict) and isinstance(step, str) and not {step, "*"} & here.keys():
            return find_similar_name(step, here)
    return None


def find_similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to ``name``, or None if none is similar."""
    from difflib import get_close_matches  # needed by few commands

    known = {key.lower(): key for key in names}
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return known[found[0]] if found else None


def suggest_name(name: object, names: Iterable[str]) -> str:
    """Return a "did you mean" question for the most similar name, or an empty string."""
    nearest = find_similar_name(str(name), names)
    return f"; did you mean {nearest}?" if nearest is not None else ""


def list_misfits(shape: Shape, value: Any, place: str) -> list[str]:
    """Return the problems of a value that does not match a shape.

    Missing values and unknown fields are valid.
    """
    if value is None:
        return []
    if isinstance(shape, str):
        known = None if "|" in shape else _TYPES[shape]
        fits = isinstance(value, known) if known else value in shape.split("|")
        fits = fits and not (shape == "number" and isinstance(value, bool))
        return [] if fits else [f"{place}: expected {shape}, found {value!r:.80}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place}: expected a list, found {value!r:.80}"]
        return [
            m for i, item in enumerate(value) for m in list_misfits(shape[0], item, f"{place}[{i}]")
        ]
    if not isinstance(value, dict):
        return [f"{place}: expected an object, found {value!r:.80}"]
    return [
        misfit
        for key, child in value.items()
        if (known := shape.get(key, shape.get("*"))) is not None
        for misfit in list_misfits(known, child, f"{place}.{key}" if place else key)
    ]


def schema_of(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that corresponds to a shape."""
    if shape == "any":
        return {}
    if isinstance(shape, list):
        return {"type": ["array", "null"], "items": schema_of(shape[0])}
    if isinstance(shape, str):
        choice = {"enum": [*shape.split("|"), None]}
        return choice if "|" in shape else {"type": [_WORDS.get(shape, shape), "null"]}
    named = {key: schema_of(child) for key, child in shape.items() if key != "*"}
    others = {"additionalProperties": schema_of(shape["*"])} if "*" in shape else {}
    return {"type": ["object", "null"], **({"properties": named} if named else {}), **others}


def wrap_shape(steps: Steps, shape: Shape) -> Any:
    """Return a shape nested in the objects and lists that lead to the given path."""
    for step in reversed(steps):
        shape = [shape] if isinstance(step, int) else {step: shape}
    return shape
