"""What is told of a run: the time of each kind of test, and the memory of each worker."""

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
#: As much as the second test holds, in MB.
MUCH = 150
PAGE = f"""
def test_little():
    pass

def test_much():
    assert len(b"x" * {MUCH << 20}) > 0
"""


@pytest.mark.slow
@pytest.mark.long
def test_the_peak_of_each_worker_is_told(pytester: pytest.Pytester) -> None:
    """Of each that ran, the largest first."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(PAGE)
    done = pytester.runpytest_subprocess("--totals", "-n", "2")
    assert done.ret == 0
    [line] = [one for one in done.outlines if one.startswith("peak memory: ")]
    first, second = map(int, re.findall(r" (\d+) MB", line))
    assert first > MUCH
    assert second < first - MUCH // 2


def test_the_largest_stands_first() -> None:
    """Anyone who told it last."""
    assert memory_line({"gw0": 90, "gw1": 210}) == "peak memory: gw1 210 MB, gw0 90 MB"
