"""How large the values of an event may be: beyond, they make no sense and break what adds them up.

A limit of one field stands in the model of its event. Here are the limits of an event as a whole:
`excess` is held to by what is written and by what is read, so that a log with such an event goes
on; `too_much` by what is written alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What a whole number may be: every reader of JSON and every engine can hold it.
MAX_COUNT = 2**53 - 1
#: The largest number that is finite in every reader of JSON.
MAX_NUMBER = 1.7976931348623157e308
#: Letters of an id such as ``stage-3`` or ``att-0001``.
MAX_ID = 64
#: How deep values may be nested in each other.
MAX_DEPTH = 100
#: What one piece of work may cost, and what the budget of a session may be.
MAX_WEIGHT = 1e9
#: Tasks of one sweep.
MAX_TASKS = 100_000
#: Letters of one text of an event that is written, and of all its texts and values together.
MAX_TEXT = 1_000_000
MAX_EVENT = 8 << 20

#: What was found is recorded as it was found: it is as large as what it was found in.
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

#: Fields of an observation that name tasks by their places, as ranges.
_PLACES = ("done", "failed", "lost", "running")

_NESTED: frozenset[type] = frozenset({dict, list})
_FLAT = frozenset({str, int, float, bool, type(None)})


def excess(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return which value of an event's data is out of bounds, None where none is."""
    if type_ == "tasks.observed" and (why := misplaced(data)) is not None:
        return why
    if not _FLAT.issuperset(map(type, data.values())) and _is_deep(data, MAX_DEPTH):
        return f"expected values nested at most {MAX_DEPTH} deep, found deeper ones"
    return None


def misplaced(data: Mapping[str, Any]) -> str | None:
    """Return which ranges name a task that there is not, or one twice."""
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


def too_much(type_: str, data: Mapping[str, Any]) -> str | None:
    """Return what of an event is too large to be written, None where nothing is.

    What is read is not held to it: an older log may have more.
    """
    if type_ in _AS_FOUND:
        return None
    sizes = {field: _letters(value) for field, value in data.items()}
    longest = next((field for field, (_, most) in sizes.items() if most > MAX_TEXT), None)
    if longest is not None:
        found = sizes[longest][1]
        return f"{longest}: expected texts of {MAX_TEXT:,} letters at most, found {found:,}"
    whole = sum(letters for letters, _ in sizes.values())
    if whole > MAX_EVENT:
        return f"expected an event of {MAX_EVENT:,} letters at most, found {whole:,}"
    return None


def _letters(value: Any) -> tuple[int, int]:
    """Return the letters of all texts and values in one, each of which counts, and the longest."""
    if isinstance(value, str):
        return len(value), len(value)
    if isinstance(value, dict):
        parts = [_letters(part) for entry in value.items() for part in entry]
    elif isinstance(value, list):
        parts = [_letters(part) for part in value]
    else:
        return 1, 0
    return 1 + sum(whole for whole, _ in parts), max((most for _, most in parts), default=0)


def _is_deep(value: Any, left: int) -> bool:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    if left == 0:
        return True
    nested = [one for one in value if one and one.__class__ in _NESTED]
    return bool(nested) and any(_is_deep(one, left - 1) for one in nested)
