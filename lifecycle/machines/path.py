"""Dot paths into a document: ``artifacts.design``, ``tasks[0].status``.

Brackets hold a number, or ``+`` for a new last item, and nothing else. Source: the phase-machine
protocols.
"""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import pairwise
from typing import Any

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
    """Return the parts of a path to write at; raises `InvalidInput` where it leads too deep."""
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
    """Return what stands at a path, None where nothing does."""
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
    past the end of a list appends. Raises `InvalidInput` where something else is in the way.
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
