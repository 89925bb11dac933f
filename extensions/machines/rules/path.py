"""Read and write values at dot paths such as ``artifacts.design`` or ``tasks[0].status``.

The syntax comes from the phase-machine protocols. Brackets contain an index, or ``+`` for a new
last item. This module also lists the items of a list or object with their statuses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from extensions.machines.rules.errors import InvalidInput

Steps = tuple[str | int, ...]
"""A path in parts: text for a field, a number (from 0) for an item of a list."""

#: Index that stands for a new last item of a list of any length.
PAST_THE_END = -1

_SEGMENT = re.compile(r"([^.\[\]\s]+)((?:\[(?:0|[1-9][0-9]{0,8}|\+)\])*)")
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
#: Maximum depth of a path. Deeper values could be recorded, but not copied and printed.
MOST_PARTS = 64


def parse_path(text: str) -> Steps:
    """Return the parts of a dot path. Raise `InvalidInput` if the path is not valid."""
    steps: list[str | int] = []
    for segment in text.split("."):
        found = _SEGMENT.fullmatch(segment)
        if found is None:
            raise InvalidInput(
                (
                    f"the path {text!r} is not valid at {segment!r}. Separate field names with "
                    "dots, and write list positions in brackets, for example tasks[0].status"
                ),
                path=text,
            )
        steps.append(found[1])
        places = re.findall(r"[0-9]+|\+", found[2])
        steps += [PAST_THE_END if place == "+" else int(place) for place in places]
    return tuple(steps)


def parse_writable_path(text: str) -> Steps:
    """Return the parts of a dot path for writing. Raise `InvalidInput` if it is too deep."""
    steps = parse_path(text)
    if len(steps) > MOST_PARTS:
        raise InvalidInput(
            (
                f"the path has {len(steps)} parts, but at most {MOST_PARTS} parts are allowed. "
                "Store the value in a field with fewer levels."
            ),
            path=text[:400],
            parts=len(steps),
        )
    return steps


def format_path(steps: Steps) -> str:
    """Return the parts of a path as a dot path."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += "[+]" if step == PAST_THE_END else f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def get_value(document: Any, steps: Steps) -> Any:
    """Return the value at a path of a document, or None if the path does not exist."""
    for step in steps:
        if isinstance(step, int):
            holds = isinstance(document, list) and 0 <= step < len(document)
            document = document[step] if holds else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def set_value(document: dict[str, Any], steps: Steps, value: Any) -> None:
    """Write ``value`` at a path of ``document``, in place.

    Missing objects on the path are created. An object is merged recursively into an existing
    object; any other value replaces the existing one. The position after the last item of a list
    appends an item. Raises `InvalidInput` if a value on the path has the wrong type.
    """
    here: Any = document
    for number, (step, following) in enumerate(pairwise(steps), 1):
        here = _get_or_create(here, step, [] if isinstance(following, int) else {}, steps[:number])
    last = steps[-1]
    _set_item(here, last, merge_deep(_get_item(here, last, steps), value))


def remove_field(document: dict[str, Any], steps: Steps) -> None:
    """Remove the field at a path of ``document``, in place. A missing field is ignored."""
    holder, last = get_value(document, steps[:-1]), steps[-1]
    if isinstance(holder, dict):
        holder.pop(last, None)


def _get_or_create(here: Any, step: str | int, empty: Any, upto: Steps) -> Any:
    found = _get_item(here, step, upto)
    if found is None:
        _set_item(here, step, empty)
        return empty
    if type(found) is not type(empty):
        wanted, is_ = _KINDS[type(empty)], _KINDS.get(type(found), "a number")
        raise InvalidInput(
            (
                f"the field {format_path(upto)} contains {is_}, but the path needs {wanted}. "
                f"Replace the whole value of {format_path(upto)}."
            ),
            path=format_path(upto),
        )
    return found


def _get_item(here: Any, step: str | int, upto: Steps) -> Any:
    if isinstance(step, str):
        return here.get(step)
    if step == PAST_THE_END:
        return None
    if step > len(here):
        raise InvalidInput(
            (
                f"the list {format_path(upto)} has {len(here)} items, so it has no position "
                f"{step}. To append an item, use the position [{len(here)}]."
            ),
            path=format_path(upto),
            length=len(here),
        )
    return here[step] if step < len(here) else None


def _set_item(here: Any, step: str | int, value: Any) -> None:
    if isinstance(step, int) and step in (len(here), PAST_THE_END):
        here.append(value)
    else:
        here[step] = value


def merge_deep(old: Any, new: Any) -> Any:
    """Return ``new`` merged into ``old``. Objects are merged recursively, others replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return deepcopy(new)
    return {**old, **{key: merge_deep(old.get(key), value) for key, value in new.items()}}


def list_key_paths(value: Any, steps: Steps = ()) -> list[Steps]:
    """Return the path of every object key in a value, including nested ones."""
    found: list[Steps] = []
    if isinstance(value, dict):
        for key, child in value.items():
            found += [(*steps, key), *list_key_paths(child, (*steps, key))]
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += list_key_paths(child, (*steps, index))
    return found


class ListItem(NamedTuple):
    """An item of a list or object: its name and its status.

    The name is the ``id``, index or key of the item. ``is_new`` is true if the status was written
    recently.
    """

    name: str
    status: Any
    is_new: bool


def items_of(value: Any, path: str, written: Collection[Steps]) -> list[ListItem]:
    """Return the items of a list or object at a path.

    ``written`` are the paths that were written recently; an item is new if its status is among
    them. Items with the same id are all returned.
    """
    at = parse_path(path)
    return [
        ListItem(name, status, is_inside_written_path(written, (*at, *steps)))
        for steps, name, status in _iterate_items(value)
    ]


def list_item_statuses(value: Any) -> list[tuple[str, Any]]:
    """Return the name and status of each item of a list or object."""
    return [(name, status) for _, name, status in _iterate_items(value)]


def _iterate_items(value: Any) -> Iterator[tuple[Steps, str, Any]]:
    """Yield the path of the status, the name and the status of each item.

    The value may be a list or an object; other values have no items.
    """
    named: Iterable[tuple[str | int, str, Any]] = ()
    if isinstance(value, dict):
        named = ((key, key, item) for key, item in value.items())
    elif isinstance(value, list):
        named = ((n, _get_item_name(item, n), item) for n, item in enumerate(value))
    for step, name, item in named:
        if isinstance(item, dict):
            yield (step, "status"), name, item.get("status")
        else:
            yield (step,), name, item


def _get_item_name(item: Any, index: int) -> str:
    return str(item["id"]) if isinstance(item, dict) and "id" in item else f"[{index}]"


def is_partly_written(written: Collection[Steps], steps: Steps) -> bool:
    """Return whether a field, a part of it, or one of its parents was written."""
    return any(all(a == b for a, b in zip(path, steps, strict=False)) for path in written)


def is_inside_written_path(written: Collection[Steps], steps: Steps) -> bool:
    """Return whether a field or one of its parents was written as a whole."""
    return any(steps[:length] in written for length in range(len(steps) + 1))


def iterate_written_paths(steps: Steps, value: Any) -> Iterator[Steps]:
    """Yield the paths that change when a value is written at a path.

    An object is merged, so only the paths of its values change.
    """
    if not isinstance(value, dict):
        yield steps
        return
    for key, child in value.items():
        yield from iterate_written_paths((*steps, key), child)


def resolve_appended_items(document: Any, steps: Steps) -> Steps:
    """Return a path that was just written, with the actual index of each appended item."""
    found: Steps = ()
    for step in steps:
        at = len(get_value(document, found)) - 1 if step == PAST_THE_END else step
        found = (*found, at)
    return found


#: Key under which the newest commits of all branches are kept among the file facts. It is never
#: stored in events, which only contain the marks of these commits.
COMMITS = "\0commits"
_TIP = "commit "


def marks_of_tips(ids: Iterable[str]) -> dict[str, str]:
    """Return marks for the given commits, which are the newest commits of the branches."""
    return dict.fromkeys((_TIP + id_ for id_ in ids), "there")


def list_marked_commits(earlier: Mapping[str, str]) -> list[str]:
    """Return the ids of the commits among earlier marks."""
    return [name.removeprefix(_TIP) for name in earlier if name.startswith(_TIP)]


def marks_before(marks: Mapping[str, str], start: Any) -> dict[str, str]:
    """Return the marks of the files that were last written before ``start``, an ISO time.

    If ``start`` is not a time, all marks are returned. Marks without a time, such as those of
    commits, are always included.
    """
    try:
        began = datetime.fromisoformat(start).timestamp()
    except (TypeError, ValueError, OverflowError):
        return dict(marks)

    def is_before(mark: str) -> bool:
        written = mark.rpartition("@")[2]
        return not written.isdecimal() or int(written) / 1e9 < began

    return {file: mark for file, mark in marks.items() if is_before(mark)}


def commit_fact_key(id_: str) -> str:
    """Return the key of a commit among the facts about files.

    No file can have such a name.
    """
    return f"\0commit {id_}"
