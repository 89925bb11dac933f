"""Limits of numbers, texts and events, and checks of these limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Largest integer that all JSON parsers and databases can represent.
MAX_COUNT = 2**53 - 1
#: Largest number that all JSON parsers read as a finite number.
MAX_NUMBER = 1.7976931348623157e308
#: Maximum number of characters of an id such as ``stage-3`` or ``att-0001``.
MAX_ID = 64
#: Maximum depth of nested lists and objects.
MAX_DEPTH = 100
#: Maximum cost of one stage, and maximum budget of a session.
MAX_WEIGHT = 1e9
#: Maximum number of tasks of one sweep.
MAX_TASKS = 100_000
#: Maximum number of characters of a text in an event, such as a reason or an error.
MAX_WORDS = 20_000
#: Maximum size in bytes of one environment variable including its name. Linux does not start a
#: program with a string of 128 KiB or more.
MAX_VARIABLE = 130_000
#: Maximum number of characters of one text in a written event. The next constant limits all its
#: values together.
MAX_TEXT = 1_000_000
MAX_EVENT = 8 << 20


def shorten(text: str, most: int = MAX_WORDS) -> str:
    """Return the text shortened to at most ``most`` characters.

    If the text is cut, its end states the full length.
    """
    if len(text) <= most:
        return text
    remark = f"… (cut, {len(text):,} letters)"
    return text[: max(most - len(remark), 0)] + remark[:most]


#: Types of events that record the contents of files. Their size is not limited.
_AS_FOUND = frozenset(
    {
        "drift.detected",
        "line.imported",
        "machine.created",
        "machine.imported",
        "note.logged",
        "state.imported",
        "workflow.created",
        "workflow.imported",
    }
)
#: Fields of an observation that list tasks by number, as ranges.
_PLACES = ("done", "failed", "lost", "running")
_NESTED: frozenset[type] = frozenset({dict, list})
_FLAT = frozenset({str, int, float, bool, type(None)})


def find_exceeded_limit(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return the problem if an event's data exceeds a limit, otherwise None.

    The limits concern nested values and numbers of tasks.
    """
    if type_ == "tasks.observed" and (why := find_task_range_problem(data)) is not None:
        return why
    if not _FLAT.issuperset(map(type, data.values())) and _is_deep(data, MAX_DEPTH):
        return f"expected values nested at most {MAX_DEPTH} deep, found deeper ones"
    return None


def find_task_range_problem(data: Mapping[str, Any]) -> str | None:
    """Return the problem if the ranges of task numbers are not valid, otherwise None.

    Ranges must be in order without overlaps, and each number must be that of a task.
    """
    total = data["total"]
    for field in _PLACES:
        before = -1
        for part in data.get(field, "").split(",") if data.get(field) else ():
            first, _, last = part.partition("-")
            if (
                len(first) > 8
                or len(last) > 8
                or not before < int(first) <= int(last or first) < total
            ):
                return f"{field}: expected places from 0 to {total - 1} in order, found {part:.40}"
            before = int(last or first)
    return None


def find_oversized_event_problem(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return the problem if an event is too large to be written, otherwise None.

    Events that are read are not checked, because older logs may contain larger events.
    """
    if type_ in _AS_FOUND:
        return None
    whole = 0
    for field, value in data.items():
        size, longest = _measure_text(value)
        whole += size
        if longest > MAX_TEXT:
            return f"{field}: expected texts of {MAX_TEXT:,} letters at most, found {longest:,}"
    if whole > MAX_EVENT:
        return f"expected an event of {MAX_EVENT:,} letters at most, found {whole:,}"
    return None


def _measure_text(value: Any) -> tuple[int, int]:
    """Return the total length of all strings in a value, and the length of the longest one.

    Every other value adds 1 to the total.
    """
    total, longest, pending = 0, 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            total += len(part)
            longest = max(longest, len(part))
            continue
        total += 1
        if isinstance(part, dict):
            pending += [*part, *part.values()]
        elif isinstance(part, list):
            pending += part
    return total, longest


def _is_deep(value: Any, depth: int) -> bool:
    """Return whether lists and objects are nested more than ``depth`` levels deep."""
    level = [value]
    for _ in range(depth):
        inner = [one.values() if one.__class__ is dict else one for one in level]
        level = [one for part in inner for one in part if one and one.__class__ in _NESTED]
        if not level:
            return False
    return True
