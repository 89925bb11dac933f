"""Conditions that could never be met: values, statuses and counts that a field cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.path import parse
from lifecycle.machines.shape import Shape, below, misfits


def never_met(definition: Definition, condition: g.Guard) -> Iterator[str]:
    """Yield why a condition can never be met, with what would be right."""
    match condition:
        case g.Equals(field=path, equals=value):
            shape = _shape_at(definition, path)
            yield from (f"equals: {one}" for one in misfits(shape, value, path))
        case g.HasCommit(commit=path):
            yield from (f"commit: {one}" for one in misfits(_shape_at(definition, path), "", path))
        case g.Every(every=path, status=statuses) | g.Some(some=path, status=statuses):
            yield from _items(_shape_at(definition, path), path, statuses)
        case g.Counter(counter=name, at_least=least, below=most):
            yield from _count(definition, name, least, most)
        case g.HasFile(file=pattern) if "{" in pattern:
            put_in = "nothing is put in for braces here; * stands for any name"
            yield f"file: {put_in}; found {pattern!r}"
        case _:
            return


def _shape_at(definition: Definition, path: str) -> Shape:
    """Return the shape of a field; ``any`` for one that is told to be unknown elsewhere."""
    try:
        shape = below(definition.fields, parse(path))
    except InvalidInput:
        shape = None
    return "any" if shape is None else shape


def _items(shape: Shape, path: str, statuses: list[str]) -> Iterator[str]:
    if not statuses:
        yield f"status: expected at least one status for the items of {path}"
    if isinstance(shape, str) and shape not in ("list", "object", "any"):
        yield f"{path} is {shape}: expected a list or an object, whose items have a status"
        return
    status = _status_of(shape)
    if isinstance(status, str) and "|" in status:
        known = status.split("|")
        wrong = ", ".join(one for one in statuses if one not in known)
        if wrong:
            yield f"status: no item of {path} is ever {wrong}; expected some of {', '.join(known)}"


def _status_of(shape: Any) -> Shape | None:
    """Return the shape of an item's status, None where nothing says it."""
    item = (
        shape[0] if isinstance(shape, list) else shape.get("*") if isinstance(shape, dict) else None
    )
    return item.get("status") if isinstance(item, dict) else item


def _count(definition: Definition, name: str, least: int, below_: int | None) -> Iterator[str]:
    loop = definition.loops.get(name)
    if below_ is not None and below_ <= least:
        yield f"counter: no count is at least {least} and below {below_}"
    if loop is not None and loop.limit_from is None and least > loop.limit:
        yield f"counter: {name} is taken at most {loop.limit} times, never {least}"
