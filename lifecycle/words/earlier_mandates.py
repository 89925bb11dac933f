"""The first version of the rule that checks changed values against a mandate.

A mandate is a permission given in advance, with bounds for values. Approvals in old logs record no
version of this rule. They are checked with this first version, so that they stay valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.words.mandates import MISSING, Bounds, canonical_text, is_within_bounds


def _find_uncovered_parts(
    path: str, before: Any, after: Any, values: Mapping[str, Bounds]
) -> Iterator[str]:
    """Yield a sentence for each part of a changed value that is outside the bounds ``values``.

    In this version of the rule, each entry of a list is compared with the first entry of the
    previous list.
    """
    bounds = values.get(path)
    if canonical_text(before) == canonical_text(after) or (
        bounds is not None and is_within_bounds(bounds, after)
    ):
        return
    if isinstance(after, list) and isinstance(before, list) and before and after:
        for one in after:
            yield from _find_uncovered_parts(path, before[0], one, values)
    elif isinstance(after, dict) and isinstance(before, dict) and bounds is None:
        for key in sorted({*before, *after}):
            was, new = before.get(key, MISSING), after.get(key, MISSING)
            yield from find_uncovered_at_key(path, key, was, new, values)
    elif bounds is None:
        yield f"{path}: no bounds are given for it"
    else:
        yield f"{path}: {canonical_text(after):.60} is not within {canonical_text(bounds):.80}"


def find_uncovered_at_key(
    path: str, key: str, before: Any, after: Any, values: Mapping[str, Bounds]
) -> Iterator[str]:
    """Yield the parts of a value at one key of an object that a mandate does not cover.

    A value is `MISSING` if the object does not have the key. The rules are those of
    `_find_uncovered_parts`.
    """
    place = f"{path}.{key}"
    if after is MISSING:
        yield f"{place}: no bounds allow to take it away"
    elif "." in key:  # the path would be ambiguous
        yield f"{place}: no bounds are given for it"
    else:
        yield from _find_uncovered_parts(place, before, after, values)
