"""Shapes: what a field of a machine's state may hold, as data.

``text``, ``flag``, ``number``, ``list``, ``object``, ``any``; ``"a|b|c"`` one of these texts;
an object of shapes; ``[shape]`` a list of it; ``{"*": shape}`` an object with any keys. Every
field may be missing or null, and fields that no shape names are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lifecycle.machines.path import Steps

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
#: Where JSON Schema has another word for it.
_WORDS = {"text": "string", "flag": "boolean", "list": "array"}


def faults(shape: Shape, place: str) -> list[str]:
    """Return what is wrong with a shape itself."""
    if isinstance(shape, str):
        known = shape in _TYPES or "|" in shape
        return [] if known else [f"{place}: no shape {shape!r}; there is {', '.join(_TYPES)}, a|b"]
    if isinstance(shape, dict):
        return [fault for key, child in shape.items() for fault in faults(child, f"{place}.{key}")]
    if isinstance(shape, list) and len(shape) == 1:
        return faults(shape[0], f"{place}[]")
    return [f"{place}: expected a name, an object, or a list with one shape"]


def below(shape: Shape, steps: Steps) -> Shape | None:
    """Return the shape at a path, None if the shape knows of nothing there."""
    for step in steps:
        if shape in ("any", "object", "list"):
            return "any"
        if isinstance(step, int):
            shape = shape[0] if isinstance(shape, list) else None
        else:
            shape = shape.get(step, shape.get("*")) if isinstance(shape, dict) else None
    return shape


def nearest_name(shape: Shape, steps: Steps) -> str | None:
    """Return the known field that a path misspells, None if it names one or none is near."""
    for number, step in enumerate(steps):
        here = below(shape, steps[:number])
        if isinstance(here, dict) and isinstance(step, str) and not {step, "*"} & here.keys():
            return near(step, here)
    return None


def near(name: str, names: Iterable[str]) -> str | None:
    """Return the name that another one misspells, None if none is near."""
    from difflib import get_close_matches  # of no use to most commands

    known = {key.lower(): key for key in names}
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return known[found[0]] if found else None


def meant(name: object, names: Iterable[str]) -> str:
    """Return the question whether the nearest name is meant, nothing if none is near."""
    nearest = near(str(name), names)
    return f"; is {nearest} meant?" if nearest is not None else ""


def misfits(shape: Shape, value: Any, place: str) -> list[str]:
    """Return where a value is not of a shape; unknown fields fit."""
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
        return [m for i, item in enumerate(value) for m in misfits(shape[0], item, f"{place}[{i}]")]
    if not isinstance(value, dict):
        return [f"{place}: expected an object, found {value!r:.80}"]
    return [
        misfit
        for key, child in value.items()
        if (known := shape.get(key, shape.get("*"))) is not None
        for misfit in misfits(known, child, f"{place}.{key}" if place else key)
    ]


def schema_of(shape: Shape) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a shape."""
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


def around(steps: Steps, shape: Shape) -> Any:
    """Return the shape with the objects and lists that lead to it."""
    for step in reversed(steps):
        shape = [shape] if isinstance(step, int) else {step: shape}
    return shape
