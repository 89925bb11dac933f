"""The number of examples: some in `make test`, more in `make crash`, all in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

#: With the value `all`, each property test runs all of its examples.
VARIABLE = "WFCTL_EXAMPLES"
#: The date whose share of tests is run, by default today. Workers get the same date.
DAY = "WFCTL_DAY"
#: In how many shares the tests of a run are divided; one share is run each day. By default 1.
SHARES = "WFCTL_SHARES"
_FEWEST, _PART = 5, 10


def tries_all() -> bool:
    """Return whether this run tries all examples, like `make crash`."""
    return os.environ.get(VARIABLE) == "all"


def some(number: int) -> int:
    """Return how many of the given number of examples are tried now."""
    if tries_all():
        return number
    return min(number, max(_FEWEST, number // _PART))


def rounds(values: Sequence[Any], few: int, daily: int = 0) -> list[Any]:
    """Return the rounds of a generator for `parametrize`: a few are long, the rest a soak.

    About ``daily`` of the rest are long too, different ones each day. A tuple is a round with
    several values.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    long = {*range(few), *of_the_day(range(few, len(cases)), daily)}
    return [
        pytest.param(*case, marks=pytest.mark.long if number in long else pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


def of_the_day(values: Sequence[Any], daily: int) -> Sequence[Any]:
    """Return today's share of values; the shares of successive days cover all values."""
    if not daily or not values:
        return []
    shares = -(-len(values) // daily)
    return values[date.fromisoformat(today()).toordinal() % shares :: shares]


def today() -> str:
    """Return the day whose share is run; all workers of a run have the same day."""
    return os.environ.setdefault(DAY, datetime.now(UTC).date().isoformat())


def share_of_today(items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    """Return today's share of the tests; the shares of successive days cover all tests.

    Neighbouring cases of a test go to different shares, so each share holds some cases of it.
    """
    shares = int(os.environ.get(SHARES, "1"))
    return of_the_day(items, -(-len(items) // shares))


def first(values: Sequence[Any], now: int = 1) -> list[Any]:
    """Return the cases of a slow test for `parametrize`: those after the first ones are long.

    A tuple is a case with several values.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*case, marks=[pytest.mark.long] * (number >= now))
        for number, case in enumerate(cases)
    ]


def mark_further(items: Iterable[pytest.Item]) -> None:
    """Run only some cases of a test marked `few` now, and mark the other cases as long.

    The selected cases are spread from the first to the last case, which differ in every value.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        later = any(item.get_closest_marker(name) for name in ("long", "soak"))
        if item.get_closest_marker("few") and not later:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        [number] = cases[0].get_closest_marker("few").args  # type: ignore[union-attr]
        now = spread(len(cases), number)
        for place, case in enumerate(cases):
            if place not in now:
                case.add_marker("long")


def spread(size: int, number: int) -> set[int]:
    """Return evenly spread positions in a sequence, including the first and the last."""
    steps = max(number - 1, 1)
    return {round(step * (size - 1) / steps) for step in range(number)}


def shorten(items: Iterable[pytest.Item]) -> None:
    """Mark property tests, and limit the number of their examples."""
    shortened: set[object] = set()
    for item in items:
        test = getattr(item, "obj", None)
        if not is_hypothesis_test(test):
            continue
        item.add_marker("property")
        function = getattr(test, "__func__", test)
        # The cases of one test share a function.
        if function not in shortened:
            shortened.add(function)
            _shorten(function)


def _shorten(test: object) -> None:
    # Hypothesis reads this attribute when the test is called; settings cannot be applied twice.
    asked: settings = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
    chosen = settings(asked, max_examples=some(asked.max_examples))
    test._hypothesis_internal_use_settings = chosen  # type: ignore[attr-defined]
