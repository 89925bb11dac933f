"""The order in which the keys of a document were written.

Canonical JSON sorts keys; people do not. `layout_of` records the order of every object that is
not sorted, `restore` gives it back.
"""

from __future__ import annotations

from typing import Any

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
        found.update(layout_of(child, f"{pointer}/{_escape(key)}"))
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
        key: restore(value[key], layout, f"{pointer}/{_escape(key)}") for key in (*known, *rest)
    }


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        return [(str(index), child) for index, child in enumerate(value)]
    return []


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
