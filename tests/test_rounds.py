"""`make test` tries some examples of a property test, and `make crash` tries all of them."""

from __future__ import annotations

import pytest

from tests.order import slow_first
from tests.rounds import (
    DAY,
    SHARES,
    VARIABLE,
    mark_further,
    of_the_day,
    rounds,
    share_of_today,
    some,
)

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.rounds import shorten

def pytest_configure(config):
    config.addinivalue_line("markers", "property: tried on examples")

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    shorten(items)
"""
PAGE = """
import pytest
from hypothesis import given, settings, strategies as st

@pytest.mark.parametrize("case", [1, 2])
@settings(max_examples=40, database=None)
@given(number=st.integers())
def test_property(case, number):
    with open("tried", "a") as stream:
        print(case, file=stream)

def test_plain():
    pass
"""


@pytest.mark.parametrize(("said", "expected"), [("", 5), ("all", 40)])
def test_property_test_tries_the_requested_number_of_examples(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, said: str, expected: int
) -> None:
    """Each case of a property test tries this number; only property tests get the mark."""
    monkeypatch.setenv(VARIABLE, said)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_page=PAGE)
    done = pytester.runpytest_inprocess("-m", "property")
    assert done.parseoutcomes() == {"passed": 2, "deselected": 1}
    tried = (pytester.path / "tried").read_text().split()
    assert (tried.count("1"), tried.count("2")) == (expected, expected)


def test_small_number_of_examples_is_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A property test tries at least five examples, or all of them if it has fewer."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert [some(number) for number in (1, 5, 12, 100)] == [1, 5, 5, 10]


DEAR = """
import pytest

@pytest.mark.{mark}
@pytest.mark.parametrize("one", [0, 1, 2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("other", "abc")
def test_dear(one, other):
    pass

def test_plain():
    pass
"""


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("few(1)", {"a-0"}),
        ("few(2)", {"a-0", "c-2"}),
        ("few(3)", {"a-0", "b-1", "c-2"}),
        ("few(20)", {*"012"}),
        ("slow", {"a-0"}),
    ],
)
def test_mark_selects_cases_of_a_slow_test(
    pytester: pytest.Pytester, mark: str, expected: set[str]
) -> None:
    """The selected cases are spread evenly, without those that are long anyway."""
    pytester.makeini("[pytest]\nmarkers =\n  few(number)\n  slow\n  long")
    items = pytester.getitems(DEAR.format(mark=mark))
    mark_further(items)
    now = {item.name for item in items if item.get_closest_marker("long") is None}
    if mark == "few(20)":
        expected = {f"{other}-{one}" for other in "abc" for one in expected}
    assert now == {"test_plain", *(f"test_dear[{case}]" for case in expected)}


SLOW = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_short(number):
    pass

@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_long(number):
    pass
"""


@pytest.mark.parametrize("workers", [1, 2, 4, 20])
def test_slow_tests_come_first_in_the_part_of_each_worker(
    pytester: pytest.Pytester, workers: int
) -> None:
    """Every test occurs once, and the part of each worker starts with its slow tests."""
    pytester.makeini("[pytest]\nmarkers = slow")
    items = pytester.getitems(SLOW)
    order = [item.name for item in slow_first(items, workers)]
    assert sorted(order) == sorted(item.name for item in items)
    size = -(-len(items) // workers)
    assert order[0].startswith("test_long") or workers == 20
    if workers == 2:
        kinds = [name.partition("[")[0] for name in order]
        assert kinds[: size + 1] == ["test_long"] * 2 + ["test_short"] * 3 + ["test_long"] * 2


def test_daily_shares_cover_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares of successive days cover all rounds, and a day always has the same share."""
    shares = []
    for day in range(1, 19):
        monkeypatch.setenv(DAY, f"2026-11-{day:02}")
        shares.append(list(of_the_day(range(140), 8)))
        assert list(of_the_day(range(140), 8)) == shares[-1]
    assert sorted(one for share in shares for one in share) == list(range(140))
    assert {len(share) for share in shares} <= {7, 8}
    marked = [one.marks[0].name for one in rounds(range(162), few=22, daily=8)]
    assert marked[:22] == ["long"] * 22
    assert 29 <= marked.count("long") <= 30


def test_shares_of_successive_days_cover_all_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two shares, two days run all tests, and each share has cases of each test."""
    pytester.makeini("[pytest]\nmarkers = slow")
    items = pytester.getitems(SLOW)
    monkeypatch.setenv(SHARES, "2")
    shares = []
    for day in ("2026-11-30", "2026-12-01"):
        monkeypatch.setenv(DAY, day)
        shares.append([item.name for item in share_of_today(items)])
    assert sorted(shares[0] + shares[1]) == sorted(item.name for item in items)
    assert all({name[:8] for name in share} == {"test_sho", "test_lon"} for share in shares)


def test_one_share_holds_all_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tests are not divided into shares, each day runs all of them."""
    monkeypatch.delenv(SHARES, raising=False)
    items = pytester.getitems("def test_one(): pass\ndef test_other(): pass")
    assert list(share_of_today(items)) == items
