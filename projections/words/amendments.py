"""An amendment in words, taken from what it changes and never from what its proposer says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lifecycle.fold.amendments import KEYED, rewired_fields
from lifecycle.state.workflow import PLAN, Amendment
from projections.words.signs import spelled

#: What `told` shows: so many values, and so many letters of a place or a value.
_VALUES, _LETTERS = 5, 80
Parts = tuple[str, ...]
"""What changes, and its old and new value; or what is done, in one part."""


def where(amendment: Amendment) -> str:
    """Return the stages, or that it is the whole workflow."""
    return ", ".join(amendment.targets) or "workflow"


def changes(amendment: Amendment) -> list[str]:
    """Return a line for each value that changes: place, old, new; in full, nothing is left out."""
    return [_line(parts, spelled) for parts in _changes(amendment)]


def held(ids: Sequence[str]) -> str:
    """Say of a stage that amendments which wait for a decision would act on it."""
    if PLAN in ids:
        return "waits for the plan's approval"
    return f"waits for a decision: {', '.join(ids)} would act on it"


def summary(amendment: Amendment) -> str:
    """Return all changes on one line."""
    return "; ".join(changes(amendment))


def told(amendment: Amendment) -> str:
    """Return what changes, and behind it what the proposer calls it, on one line.

    Long values are cut, each on its own, so that none hides another.
    """
    found = list(_changes(amendment))
    listed = [_line(parts, _short) for parts in found[:_VALUES]]
    if len(found) > _VALUES:
        listed.append(f"{len(found) - _VALUES} more (wfctl amend show {amendment.id})")
    return f"{'; '.join(listed)}; described as {_json(spelled(amendment.description))}"


def _line(parts: Parts, show: Callable[[str], str]) -> str:
    place, *values = map(show, parts)
    return ": ".join([place, " -> ".join(values)] if values else [place])


def _short(text: str) -> str:
    shown = spelled(text)
    return shown if len(shown) <= _LETTERS else f"{shown[:_LETTERS]}…"


def _changes(amendment: Amendment) -> Iterator[Parts]:
    if amendment.is_plan:
        yield ("the plan",)
        return
    found = [*_values(amendment), *_stages(amendment)]
    yield from found or [(f"{amendment.kind.removeprefix('stage_')} {where(amendment)}",)]


def _values(amendment: Amendment) -> Iterator[Parts]:
    yield from _of_fields(amendment.changes, "")


def _of_fields(changes: dict[str, Any], of: str) -> Iterator[Parts]:
    for field, change in changes.items():
        leaves = change if field in KEYED and isinstance(change, dict) else {"": change}
        for key, leaf in leaves.items():
            yield _change(f"{of}{field}.{key}" if key else f"{of}{field}", leaf)


def _stages(amendment: Amendment) -> Iterator[Parts]:
    if amendment.insert is not None:
        at = "the end" if amendment.place is None else f"place {amendment.place}"
        yield (f"new stage, at {at}", _json(amendment.insert))
    elif amendment.kind in ("stage_skip", "stage_rerun"):
        yield (f"{amendment.kind.removeprefix('stage_')} {where(amendment)}",)
    for stage, change in amendment.rewired.items():
        yield from _of_fields(rewired_fields(change), f"{stage}.")


def _change(place: str, leaf: Any) -> Parts:
    if not isinstance(leaf, dict) or not set(leaf) <= {"old", "new"}:
        return (place, _json(leaf))  # of a record that was imported, which holds anything
    return (place, _value(leaf, "old"), _value(leaf, "new"))


def _value(leaf: dict[str, Any], key: str) -> str:
    return _json(leaf[key]) if key in leaf else "(nothing)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
