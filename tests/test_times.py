"""The summary of a test run has the time of each kind of test and the memory of workers."""

from __future__ import annotations

import re

import pytest

from tests.times import memory_line

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.conftest import (
    pytest_addoption, pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown
)
"""
#: The memory in MB that the second test uses.
MUCH = 150
PAGE = f"""
def test_little():
    pass

def test_much():
    assert len(b"x" * {MUCH << 20}) > 0
"""


@pytest.mark.slow
@pytest.mark.long
def test_summary_shows_the_peak_memory_of_each_worker(pytester: pytest.Pytester) -> None:
    """The summary lists the worker with the largest peak memory first."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(PAGE)
    done = pytester.runpytest_subprocess("--totals", "-n", "2")
    assert done.ret == 0
    [line] = [one for one in done.outlines if one.startswith("peak memory: ")]
    first, second = map(int, re.findall(r" (\d+) MB", line))
    assert first > MUCH
    assert second < first - MUCH // 2


def test_memory_line_is_sorted_by_peak() -> None:
    """The order of the workers does not depend on the order of their reports."""
    assert memory_line({"gw0": 90, "gw1": 210}) == "peak memory: gw1 210 MB, gw0 90 MB"
