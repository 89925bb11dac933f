"""Describe plans and amendments (changes of the plan) by their actual changes.

The description that a proposer wrote is not trusted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lifecycle.fold.evolve import KEYED
from lifecycle.state.workflow import PLAN, Amendment
from lifecycle.words.document import collect_changes_by_field
from projections.words.text import spell_unseen

#: Maximum number of values in `describe_amendment`, and maximum number of characters of a path or a
#: value.
_VALUES, _LETTERS = 5, 80
#: Placeholder for a missing value.
_NOTHING = object()
#: Pattern of keys that need no quotes in a dotted path.
_PLAIN = r"[\w.-]+"
Parts = tuple[str, ...]
"""A changed place with its old and new value, or one text for another action."""


def format_targets(amendment: Amendment) -> str:
    """Return the stages that an amendment changes, or ``workflow``.

    If the change starts with a later round of a loop, add this round.
    """
    since = f", from round {amendment.from_round} on" if amendment.from_round is not None else ""
    return (", ".join(amendment.targets) or "workflow") + since


def format_changes(amendment: Amendment) -> list[str]:
    """Return one line for each changed value, with its path, old value and new value."""
    return [_format_change(parts, spell_unseen) for parts in _list_changes(amendment)]


def describe_pending_amendments(ids: Sequence[str]) -> str:
    """Return the text for a stage that waits because open amendments would change it."""
    if PLAN in ids:
        return "waits for the plan's approval"
    return f"waits for a decision: {', '.join(ids)} would change it"


def summarise_changes(amendment: Amendment) -> str:
    """Return all changes of an amendment as one line."""
    return "; ".join(format_changes(amendment))


def describe_amendment(amendment: Amendment) -> str:
    """Return the changes of an amendment and the proposer's description, on one line.

    Each long value is shortened separately, so that all changed values remain visible.
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
    """Yield the changes between two values. For objects, compare each field separately."""
    if _format_json(old) == _format_json(new):
        return
    sides = [one if isinstance(one, dict) else {} for one in (old, new)]
    if any(sides) and all(one is _NOTHING or isinstance(one, dict) for one in (old, new)):
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            step = key if re.fullmatch(_PLAIN, key) else _format_json(key)
            yield from _compare_values(
                f"{place}.{step}", *(one.get(key, _NOTHING) for one in sides)
            )
        return
    yield from _compare_long_lists(place, old, new) or [
        (place, _format_json(old), _format_json(new))
    ]


def _compare_long_lists(place: str, old: Any, new: Any) -> list[Parts]:
    """Return the entries added to and removed from a long list.

    Return an empty list if the values are not lists, or if the list is short or reordered. Such
    values are shown completely.
    """
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
    """Return the entries without the removed ones, in order.

    If an entry occurs several times, its last occurrences are removed.
    """
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
        yield from _of_fields(collect_changes_by_field(change), f"{stage}.")


def _format_json(value: Any) -> str:
    return "(nothing)" if value is _NOTHING else json.dumps(value, ensure_ascii=False)
