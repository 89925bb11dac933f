"""Places: the folders of attempts, and which of them somebody works in."""

from __future__ import annotations

from collections.abc import Set as AbstractSet


def place_of(folder: str, places: AbstractSet[str]) -> str | None:
    """Return the place that a folder is or lies below; the cost is that of its depth alone."""
    while folder and folder not in places:
        folder = folder.rpartition("/")[0]
    return folder or None
