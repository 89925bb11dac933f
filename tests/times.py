"""What the tests of each kind took in all, and the memory of those who ran them."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest


class Total(NamedTuple):
    """The tests of one kind: how many, and the seconds of all of them together."""

    tests: int
    seconds: float


def totals(reports: Iterable[pytest.TestReport]) -> dict[str, Total]:
    """Return the total of each folder of tests, the longest first."""
    found: dict[str, Total] = {}
    for report in reports:
        kind = report.nodeid.partition("::")[0].rpartition("/")[0]
        known = found.get(kind, Total(0, 0.0))
        is_test = report.when == "call" or report.outcome == "skipped"
        found[kind] = Total(known.tests + is_test, known.seconds + report.duration)
    return dict(sorted(found.items(), key=lambda pair: -pair[1].seconds))


def lines(found: dict[str, Total]) -> list[str]:
    """Return a line for each kind, and one for all."""
    whole = Total(sum(t.tests for t in found.values()), sum(t.seconds for t in found.values()))
    named = [*found.items(), ("in all", whole)]
    return [f"{total.seconds:8.1f} s {total.tests:5} tests  {kind}" for kind, total in named]


def memory_peak() -> int:
    """Return the most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def memory_line(peaks: Mapping[str, int]) -> str:
    """Return a line with the peak of each worker, the largest first."""
    largest = sorted(peaks.items(), key=lambda pair: -pair[1])
    return "peak memory: " + ", ".join(f"{worker} {peak} MB" for worker, peak in largest)
