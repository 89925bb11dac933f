"""How much is tried when: some by `make test`, more by `make crash`, all by `make soak`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

#: Set to `all`, each property is tried on as many examples as it asks for.
VARIABLE = "WFCTL_EXAMPLES"
#: The day whose share is run, as a date; today if nobody set it. Workers are given the same.
DAY = "WFCTL_DAY"
_FEWEST, _PART = 5, 10


def tries_all() -> bool:
    """Whether this run is for all examples, as that of `make crash` is."""
    return os.environ.get(VARIABLE) == "all"


def some(number: int) -> int:
    """Return how many of so many examples are tried now."""
    if tries_all():
        return number
    return min(number, max(_FEWEST, number // _PART))


def rounds(values: Sequence[Any], few: int, daily: int = 0) -> list[Any]:
    """Return the rounds of a generator for `parametrize`: a few are long, the rest a soak.

    Of the rest about ``daily`` are long too, others each day. A round of several values is a tuple.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    long = {*range(few), *of_the_day(range(few, len(cases)), daily)}
    return [
        pytest.param(*case, marks=pytest.mark.long if number in long else pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


def of_the_day(values: Sequence[Any], daily: int) -> Sequence[Any]:
    """Return a share of values: of as many days as there are shares each has another."""
    if not daily or not values:
        return []
    shares = -(-len(values) // daily)
    return values[date.fromisoformat(today()).toordinal() % shares :: shares]


def today() -> str:
    """Return the day whose share is run; the workers of a run that begins now have the same."""
    return os.environ.setdefault(DAY, datetime.now(UTC).date().isoformat())


def first(values: Sequence[Any], now: int = 1) -> list[Any]:
    """Return the cases of a dear test for `parametrize`: after the first ones, they are long.

    A case of several values is a tuple.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*case, marks=[pytest.mark.long] * (number >= now))
        for number, case in enumerate(cases)
    ]


def mark_further(items: Iterable[pytest.Item]) -> None:
    """Let a test that is marked `few` run so many of its cases now; the others are long.

    They are spread from its first case to its last, which differ in every value.
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
    """Return the places of so many of a sequence, of its first and its last among them."""
    steps = max(number - 1, 1)
    return {round(step * (size - 1) / steps) for step in range(number)}


def shorten(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of properties as such, and let each be tried on as many as now are."""
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
    # Hypothesis looks here when the test is called; settings cannot be given twice.
    asked: settings = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
    chosen = settings(asked, max_examples=some(asked.max_examples))
    test._hypothesis_internal_use_settings = chosen  # type: ignore[attr-defined]
