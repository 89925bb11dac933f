"""Dot paths into a document: ``artifacts.design``, ``tasks[0].status``.

Brackets hold a number, or ``+`` for a new last item, and nothing else. Source: the phase-machine
protocols. And the items of what lies there, with their statuses, and which of them were written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from lifecycle.machines.errors import InvalidInput

Steps = tuple[str | int, ...]
"""A path in parts: text for a field, a number (from 0) for an item of a list."""

#: Where a new last item of a list comes, however long the list is when it is written.
PAST_THE_END = -1

_SEGMENT = re.compile(r"([^.\[\]\s]+)((?:\[(?:0|[1-9][0-9]{0,8}|\+)\])*)")
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
#: What lies deeper can be recorded, but no longer copied and printed.
MOST_PARTS = 64


def parse(text: str) -> Steps:
    """Return the parts of a path; raises `InvalidInput` for what is no path."""
    steps: list[str | int] = []
    for segment in text.split("."):
        found = _SEGMENT.fullmatch(segment)
        if found is None:
            raise InvalidInput(
                f"{text!r} is no path: expected fields parted by dots, with numbers in brackets "
                f"for items of a list (tasks[0].status), found {segment!r}",
                path=text,
            )
        steps.append(found[1])
        places = re.findall(r"[0-9]+|\+", found[2])
        steps += [PAST_THE_END if place == "+" else int(place) for place in places]
    return tuple(steps)


def writable(text: str) -> Steps:
    """Return the parts of a path to write at; raises `InvalidInput` if it leads too deep."""
    steps = parse(text)
    if len(steps) > MOST_PARTS:
        raise InvalidInput(
            f"a path has at most {MOST_PARTS} parts, found {len(steps)}; keep the state flatter",
            path=text[:400],
            parts=len(steps),
        )
    return steps


def written(steps: Steps) -> str:
    """Return a path as it is written."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += "[+]" if step == PAST_THE_END else f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def look(document: Any, steps: Steps) -> Any:
    """Return what stands at a path, None if nothing does."""
    for step in steps:
        if isinstance(step, int):
            holds = isinstance(document, list) and 0 <= step < len(document)
            document = document[step] if holds else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def put(document: dict[str, Any], steps: Steps, value: Any) -> None:
    """Write ``value`` at a path of ``document``, in place.

    Missing objects on the way are made; objects merge deep, anything else is replaced; one slot
    past the end of a list appends. Raises `InvalidInput` if something else is in the way.
    """
    here: Any = document
    for number, (step, following) in enumerate(pairwise(steps), 1):
        here = _enter(here, step, [] if isinstance(following, int) else {}, steps[:number])
    last = steps[-1]
    _set(here, last, merged(_at(here, last, steps), value))


def take_away(document: dict[str, Any], steps: Steps) -> None:
    """Remove the field at a path of ``document``, in place; what is not there is gone already."""
    holder, last = look(document, steps[:-1]), steps[-1]
    if isinstance(holder, dict):
        holder.pop(last, None)


def _enter(here: Any, step: str | int, empty: Any, upto: Steps) -> Any:
    found = _at(here, step, upto)
    if found is None:
        _set(here, step, empty)
        return empty
    if type(found) is not type(empty):
        wanted, is_ = _KINDS[type(empty)], _KINDS.get(type(found), "a number")
        raise InvalidInput(
            f"{written(upto)} is {is_}, expected {wanted}; write it whole instead",
            path=written(upto),
        )
    return found


def _at(here: Any, step: str | int, upto: Steps) -> Any:
    if isinstance(step, str):
        return here.get(step)
    if step == PAST_THE_END:
        return None
    if step > len(here):
        raise InvalidInput(
            f"{written(upto)}: the list has {len(here)} items; [{len(here)}] appends, further "
            "is refused",
            path=written(upto),
            length=len(here),
        )
    return here[step] if step < len(here) else None


def _set(here: Any, step: str | int, value: Any) -> None:
    if isinstance(step, int) and step in (len(here), PAST_THE_END):
        here.append(value)
    else:
        here[step] = value


def merged(old: Any, new: Any) -> Any:
    """Return ``new`` over ``old``: objects merge deep, anything else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return deepcopy(new)
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def leaves(value: Any, steps: Steps = ()) -> list[Steps]:
    """Return the path of every object key below ``value``."""
    found: list[Steps] = []
    if isinstance(value, dict):
        for key, child in value.items():
            found += [(*steps, key), *leaves(child, (*steps, key))]
    elif isinstance(value, list):
        for index, child in enumerate(value):
            found += leaves(child, (*steps, index))
    return found


class ListItem(NamedTuple):
    """An item of a list (by ``id`` or place) or of an object; ``is_new``: its status is."""

    name: str
    status: Any
    is_new: bool


def items_of(value: Any, path: str, written: Collection[Steps]) -> list[ListItem]:
    """Return the items of the list or object at a path; those are new whose status was written.

    Items of a list may share an id; each of them counts.
    """
    at = parse(path)
    return [
        ListItem(name, status, covers(written, (*at, *steps)))
        for steps, name, status in _places(value)
    ]


def items(value: Any) -> list[tuple[str, Any]]:
    """Return the items of a list or object, with their statuses."""
    return [(name, status) for _, name, status in _places(value)]


def _places(value: Any) -> Iterator[tuple[Steps, str, Any]]:
    """Yield each item of a list or object: the steps to its status, its name, its status."""
    named: Iterable[tuple[str | int, str, Any]] = ()
    if isinstance(value, dict):
        named = ((key, key, item) for key, item in value.items())
    elif isinstance(value, list):
        named = ((n, _name(item, n), item) for n, item in enumerate(value))
    for step, name, item in named:
        if isinstance(item, dict):
            yield (step, "status"), name, item.get("status")
        else:
            yield (step,), name, item


def _name(item: Any, index: int) -> str:
    return str(item["id"]) if isinstance(item, dict) and "id" in item else f"[{index}]"


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


def marks_before(marks: Mapping[str, str], start: Any) -> dict[str, str]:
    """Return the marks of files that were last written before ``start``, an ISO time.

    All marks if ``start`` is not a time. Marks without a time, as those of commits, are kept.
    """
    try:
        began = datetime.fromisoformat(start).timestamp()
    except (TypeError, ValueError, OverflowError):
        return dict(marks)

    def is_before(mark: str) -> bool:
        written = mark.rpartition("@")[2]
        return not written.isdecimal() or int(written) / 1e9 < began

    return {file: mark for file, mark in marks.items() if is_before(mark)}


def place_of_commit(id_: str) -> str:
    """Return where, among what was found of files, a commit stands; no file is named so."""
    return f"\0commit {id_}"
