"""The fields of ``workflow-state.json`` by their names, and what one holds.

A name is a path with dots: ``default_backend``, ``backend_profiles.hpc.type``, and of a stage
``stage-2.parameters.solver_tolerance``. A list is one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
Tree = dict[str, Any]


class _Absent:
    """What stands where no field does."""

    def __repr__(self) -> str:
        return "(not there)"


ABSENT = _Absent()


def tree(document: dict[str, Any]) -> Tree:
    """Return the document with its stages by their ids beside the fields of the workflow."""
    fields = {key: value for key, value in document.items() if key != "stages"}
    return fields | {stage["id"]: stage for stage in document["stages"]}


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every path below a value that leads to something that is no object, with that."""
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, child in value.items():
        yield from leaves(child, (*path, key))


def at(value: Any, path: Path) -> Any:
    """Return what stands at a path, `ABSENT` where nothing does."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ABSENT
        value = value[key]
    return value


def path_of(known: Any, name: str) -> Path:
    """Return the path that a name means in a tree; keys may hold dots themselves.

    Where nothing is known by it, every dot parts two keys.
    """
    if not isinstance(known, dict):
        return tuple(name.split("."))
    for key in sorted(known, key=len, reverse=True):
        if name == key:
            return (key,)
        if name.startswith(f"{key}."):
            return (key, *path_of(known[key], name[len(key) + 1 :]))
    return tuple(name.split("."))


def spelt(path: Path) -> str:
    """Return the name of a path."""
    return ".".join(path)
