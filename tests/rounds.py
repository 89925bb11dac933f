"""Select how many examples of a test are tried: `make test` tries only some.

`make crash` tries more examples, and `make soak` tries all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

#: Environment variable; with the value `all`, each property test runs all of its examples.
VARIABLE = "WFCTL_EXAMPLES"
#: Environment variable with the date whose share of tests is run, by default today. All workers of
#: a run get the same date.
DAY = "WFCTL_DAY"
#: Environment variable with the number of shares into which the tests are divided, by default 1.
#: One share is run each day.
SHARES = "WFCTL_SHARES"
_FEWEST, _PART = 5, 10
#: Number of cases of a slow test that `make test` runs, if the test does not say otherwise.
_FEW = 1


def tries_all() -> bool:
    """Return whether this run tries all examples, like `make crash`."""
    return os.environ.get(VARIABLE) == "all"


def some(number: int) -> int:
    """Return the number of examples to try now: a part of the given number, or all of it."""
    if tries_all():
        return number
    return min(number, max(_FEWEST, number // _PART))


def rounds(values: Sequence[Any], few: int, daily: int = 0) -> list[Any]:
    """Return the cases of a random test for `parametrize`: some are `long`, others `soak`.

    A case may be a tuple with several values. About ``daily`` of the other cases are also marked
    `long`, different ones each day. `make crash` runs the cases marked `long`, `make soak` those
    marked `soak`.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    long = {*range(few), *of_the_day(range(few, len(cases)), daily)}
    return [
        pytest.param(*case, marks=pytest.mark.long if number in long else pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


def of_the_day(values: Sequence[Any], daily: int) -> Sequence[Any]:
    """Return today's part of the values; the parts of successive days cover all values."""
    if not daily or not values:
        return []
    shares = -(-len(values) // daily)
    return values[date.fromisoformat(today()).toordinal() % shares :: shares]


def today() -> str:
    """Return the date whose share of tests is run, the same for all workers of a run."""
    return os.environ.setdefault(DAY, datetime.now(UTC).date().isoformat())


def share_of_today(items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    """Return today's share of the tests; the shares of successive days cover all tests.

    Neighbouring cases of a test go to different shares, so each share holds some cases of it.
    """
    shares = int(os.environ.get(SHARES, "1"))
    return of_the_day(items, -(-len(items) // shares))


def first(values: Sequence[Any], now: int = 1) -> list[Any]:
    """Return the cases of a slow test for `parametrize`; all but the first are `long`.

    ``now`` is the number of cases without this mark. A tuple is a case with several values.
    """
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*case, marks=[pytest.mark.long] * (number >= now))
        for number, case in enumerate(cases)
    ]


def mark_further(items: Iterable[pytest.Item]) -> None:
    """Mark as `long` most cases of each test that has the mark `few` or `slow`.

    The remaining cases are spread evenly from the first to the last, because distant cases of a
    parametrized test differ in all parameters.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        later = any(item.get_closest_marker(name) for name in ("long", "soak"))
        if any(item.get_closest_marker(name) for name in ("few", "slow")) and not later:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        few = cases[0].get_closest_marker("few")
        now = spread(len(cases), few.args[0] if few is not None else _FEW)
        for place, case in enumerate(cases):
            if place not in now:
                case.add_marker("long")


def spread(size: int, number: int) -> set[int]:
    """Return evenly spread positions in a sequence, including the first and the last."""
    steps = max(number - 1, 1)
    return {round(step * (size - 1) / steps) for step in range(number)}


def shorten(items: Iterable[pytest.Item]) -> None:
    """Add the mark `property` to each Hypothesis test, and reduce its number of examples."""
    shortened: set[object] = set()
    for item in items:
        test = getattr(item, "obj", None)
        if not is_hypothesis_test(test):
            continue
        item.add_marker("property")
        function = getattr(test, "__func__", test)
        # All cases of a parametrized test share one function, which must be changed only once.
        if function not in shortened:
            shortened.add(function)
            _shorten(function)


def _shorten(test: object) -> None:
    # Hypothesis reads this private attribute when the test is called. Applying `settings` to a test
    # a second time would raise an error.
    asked: settings = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
    chosen = settings(asked, max_examples=some(asked.max_examples))
    test._hypothesis_internal_use_settings = chosen  # type: ignore[attr-defined]
