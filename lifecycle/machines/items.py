"""The items of a list or object with their statuses, and which of them were written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lifecycle.machines.path import PAST_THE_END, Steps, look, parse


class ListItem(NamedTuple):
    """An item of a list (by ``id`` or place) or of an object; ``is_new``: its status is."""

    name: str
    status: Any
    is_new: bool


def items_of(value: Any, path: str, written: Collection[Steps]) -> list[ListItem]:
    """Return the items of the list or object at a path; those are new whose status was written.

    Items of a list may share an id; each of them counts.
    """
    return [
        ListItem(name, _status(item), covers(written, (*parse(path), step, *leads)))
        for step, name, item in _places(value)
        for leads in [("status",) if isinstance(item, dict) else ()]
    ]


def items(value: Any) -> list[tuple[str, Any]]:
    """Return the items of a list or object, with their statuses."""
    return [(name, _status(item)) for _, name, item in _places(value)]


def _places(value: Any) -> list[tuple[str | int, str, Any]]:
    """Return the items of a list or object: the step that leads to each, its name, itself."""
    if isinstance(value, dict):
        return [(key, key, item) for key, item in value.items()]
    if isinstance(value, list):
        return [(index, _name(item, index), item) for index, item in enumerate(value)]
    return []


def _name(item: Any, index: int) -> str:
    return str(item["id"]) if isinstance(item, dict) and "id" in item else f"[{index}]"


def _status(item: Any) -> Any:
    return item.get("status") if isinstance(item, dict) else item


def touches(written: Collection[Steps], steps: Steps) -> bool:
    """Whether one of the paths written leads to a field, to a part of it, or to what holds it."""
    return any(all(a == b for a, b in zip(path, steps, strict=False)) for path in written)


def covers(written: Collection[Steps], steps: Steps) -> bool:
    """Whether one of the paths written leads to a field, or to what holds it."""
    return any(steps[:length] in written for length in range(len(steps) + 1))


def said(steps: Steps, value: Any) -> Iterator[Steps]:
    """Yield the paths that a value is written at: objects merge, anything else is replaced."""
    if not isinstance(value, dict):
        yield steps
        return
    for key, child in value.items():
        yield from said((*steps, key), child)


def placed(document: Any, steps: Steps) -> Steps:
    """Return a path that was just written, with the place of each new last item."""
    found: Steps = ()
    for step in steps:
        at = len(look(document, found)) - 1 if step == PAST_THE_END else step
        found = (*found, at)
    return found


#: Where the commits stand that the branches lead to; their marks are named as events can hold.
COMMITS = "\0commits"
_TIP = "commit "


def marks_of_tips(ids: Iterable[str]) -> dict[str, str]:
    """Return the marks of the commits that the branches lead to."""
    return dict.fromkeys((_TIP + id_ for id_ in ids), "there")


def tips_in(earlier: Mapping[str, str]) -> list[str]:
    """Return the commits among the marks of what was there before."""
    return [name.removeprefix(_TIP) for name in earlier if name.startswith(_TIP)]


def place_of_commit(id_: str) -> str:
    """Return where, among what was found of files, a commit stands; no file is named so."""
    return f"\0commit {id_}"
