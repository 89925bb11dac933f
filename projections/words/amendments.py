"""Describe plans and amendments by their changes, never by the words of the proposer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lifecycle.fold.evolve import KEYED
from lifecycle.state.workflow import PLAN, Amendment
from lifecycle.words.document import rewired_fields
from projections.words.text import spell_unseen

#: Maximum number of values in `describe_amendment`, and of characters of a place or a value.
_VALUES, _LETTERS = 5, 80
#: Placeholder for a missing value.
_NOTHING = object()
#: Pattern of a key that needs no quotes in a path.
_PLAIN = re.compile(r"[\w.-]+")
Parts = tuple[str, ...]
"""A changed place with its old and new value, or one text for another action."""


def format_targets(amendment: Amendment) -> str:
    """Return the stages that an amendment changes, or ``workflow``."""
    since = f", from round {amendment.from_round} on" if amendment.from_round is not None else ""
    return (", ".join(amendment.targets) or "workflow") + since


def format_changes(amendment: Amendment) -> list[str]:
    """Return one line for each changed value, complete, with place, old value and new value."""
    return [_format_change(parts, spell_unseen) for parts in _list_changes(amendment)]


def describe_pending_amendments(ids: Sequence[str]) -> str:
    """Return why a stage waits: pending amendments would change it."""
    if PLAN in ids:
        return "waits for the plan's approval"
    return f"waits for a decision: {', '.join(ids)} would change it"


def summarise_changes(amendment: Amendment) -> str:
    """Return all changes on one line."""
    return "; ".join(format_changes(amendment))


def describe_amendment(amendment: Amendment) -> str:
    """Return the changes and then the proposer's description, on one line.

    Each long value is cut separately, so that no value hides another.
    """
    found = list(_list_changes(amendment))
    listed = [_format_change(parts, _shorten_value) for parts in found[:_VALUES]]
    if len(found) > _VALUES:
        listed.append(f"{len(found) - _VALUES} more (wfctl amend show {amendment.id})")
    return f"{'; '.join(listed)}; described as {_format_json(spell_unseen(amendment.description))}"


def _format_change(parts: Parts, show: Callable[[str], str]) -> str:
    place, *values = map(show, parts)
    return ": ".join([place, " -> ".join(values)] if values else [place])


def _shorten_value(text: str) -> str:
    shown = spell_unseen(text)
    return shown if len(shown) <= _LETTERS else f"{shown[:_LETTERS]}…"


def _list_changes(amendment: Amendment) -> Iterator[Parts]:
    if amendment.is_plan:
        yield ("the plan",)
        return
    found = [*_of_fields(amendment.changes, ""), *_list_stage_changes(amendment)]
    yield from found or [(f"{amendment.kind.removeprefix('stage_')} {format_targets(amendment)}",)]


def _of_fields(changes: dict[str, Any], of: str) -> Iterator[Parts]:
    for field, change in changes.items():
        leaves = change if field in KEYED and isinstance(change, dict) else {"": change}
        for key, leaf in leaves.items():
            place = f"{of}{field}.{key}" if key else f"{of}{field}"
            if not isinstance(leaf, dict) or not set(leaf) <= {"old", "new"}:
                yield (
                    place,
                    _format_json(leaf),
                )  # imported records may contain anything
                continue
            both = leaf.get("old", _NOTHING), leaf.get("new", _NOTHING)
            yield from [*_compare_values(place, *both)] or [(place, *map(_format_json, both))]


def _compare_values(place: str, old: Any, new: Any) -> Iterator[Parts]:
    """Yield the changes in a value. For objects, yield each changed field separately."""
    if _format_json(old) == _format_json(new):
        return
    sides = [one if isinstance(one, dict) else {} for one in (old, new)]
    if any(sides) and all(one is _NOTHING or isinstance(one, dict) for one in (old, new)):
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            step = key if _PLAIN.fullmatch(key) else _format_json(key)
            yield from _compare_values(
                f"{place}.{step}", *(one.get(key, _NOTHING) for one in sides)
            )
        return
    yield from _of_long_list(place, old, new) or [(place, _format_json(old), _format_json(new))]


def _of_long_list(place: str, old: Any, new: Any) -> list[Parts]:
    """Return the entries that a long list loses and gains, or nothing for any other value."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return []
    before, after = ([_format_json(one) for one in entries] for entries in (old, new))
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    stay = [_remove_entries(before, gone), _remove_entries(after, come)]
    is_short = max(len(_format_json(one)) for one in (old, new)) <= _LETTERS
    if is_short or not stay[0] or stay[0] != stay[1]:
        return []
    both = {"taken away": gone, "added": come}
    return [
        (f"{place}, {what}", f"[{', '.join(found.elements())}]")
        for what, found in both.items()
        if found
    ]


def _remove_entries(entries: list[str], gone: Counter[str]) -> list[str]:
    """Return the entries in order, without the last occurrences of the removed entries."""
    left = Counter(entries) - gone
    kept = []
    for one in entries:
        kept += [one] if left[one] > 0 else []
        left[one] -= 1
    return kept


def _list_stage_changes(amendment: Amendment) -> Iterator[Parts]:
    if amendment.insert is not None:
        at = "the end" if amendment.place is None else f"place {amendment.place}"
        yield (f"new stage, at {at}", _format_json(amendment.insert))
    elif amendment.kind in ("stage_skip", "stage_rerun"):
        yield (f"{amendment.kind.removeprefix('stage_')} {format_targets(amendment)}",)
    for stage, change in amendment.rewired.items():
        yield from _of_fields(rewired_fields(change), f"{stage}.")


def _format_json(value: Any) -> str:
    return "(nothing)" if value is _NOTHING else json.dumps(value, ensure_ascii=False)
