"""Address fields of a document by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
Tree = dict[str, Any]


class _Absent:
    """The type of the marker `ABSENT`, which stands for the value of a missing field."""

    def __repr__(self) -> str:
        return "(not there)"


ABSENT = _Absent()


def build_tree(document: dict[str, Any]) -> Tree:
    """Return the fields of the document as a dict, with each stage under its id."""
    fields = {key: value for key, value in document.items() if key != "stages"}
    return fields | {stage["id"]: stage for stage in document["stages"]}


def iterate_leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each nested value that is not an object."""
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, child in value.items():
        yield from iterate_leaves(child, (*path, key))


def get_at_path(value: Any, path: Path) -> Any:
    """Return the value at a path in a nested dict, or `ABSENT` if the path does not exist."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ABSENT
        value = value[key]
    return value


def parse_dotted_path(known: Any, name: str) -> Path:
    """Return the path of the field with a dotted name.

    Keys may contain dots, so keys that exist in ``known`` are matched first. If no key matches,
    every dot separates two keys.
    """
    if not isinstance(known, dict):
        return tuple(name.split("."))
    for key in sorted(known, key=len, reverse=True):
        if name == key:
            return (key,)
        if name.startswith(f"{key}."):
            return (key, *parse_dotted_path(known[key], name[len(key) + 1 :]))
    return tuple(name.split("."))


def format_path(path: Path) -> str:
    """Return a path as a dotted name."""
    return ".".join(path)
