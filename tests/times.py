"""What the tests of each kind took in all, and the memory of those who ran them.

The seconds of the clock say what a busy machine makes of a test; those of the processor say what it
costs. Counted are the test's process, its children that were waited for, and commands that were
forked for it; who outlives a test, as a daemon does, is not.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from tests import forked


class Total(NamedTuple):
    """The tests of one kind: how many, their seconds together, and those of the processor."""

    tests: int
    seconds: float
    processor: float


def spent() -> float:
    """Return the seconds of the processor that this process and its children have taken."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both) + forked.spent()


def totals(reports: Iterable[pytest.TestReport]) -> dict[str, Total]:
    """Return the total of each folder of tests, the longest first."""
    found: dict[str, Total] = {}
    for report in reports:
        kind = report.nodeid.partition("::")[0].rpartition("/")[0]
        known = found.get(kind, Total(0, 0.0, 0.0))
        is_test = report.when == "call" or report.outcome == "skipped"
        found[kind] = Total(
            known.tests + is_test,
            known.seconds + report.duration,
            known.processor + processor_of(report),
        )
    return dict(sorted(found.items(), key=lambda pair: -pair[1].seconds))


def processor_of(report: pytest.TestReport) -> float:
    """Return the seconds of the processor that a part of a test took."""
    return float(getattr(report, "processor", 0.0))


def dearest(reports: Iterable[pytest.TestReport], number: int) -> list[str]:
    """Return a line for each of the tests that took most of the processor."""
    found: dict[str, float] = defaultdict(float)
    for report in reports:
        found[report.nodeid] += processor_of(report)
    most = sorted(found.items(), key=lambda pair: -pair[1])[:number]
    return [f"{seconds:8.1f} s of CPU  {test}" for test, seconds in most]


def lines(found: dict[str, Total]) -> list[str]:
    """Return a line for each kind, and one for all."""
    tests, seconds, processor = (sum(column) for column in zip(*found.values(), strict=True))
    named = [*found.items(), ("in all", Total(tests, seconds, processor))]
    return [
        f"{total.seconds:8.1f} s {total.processor:8.1f} s of CPU {total.tests:5} tests  {kind}"
        for kind, total in named
    ]


def memory_peak() -> int:
    """Return the most memory that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def memory_line(peaks: Mapping[str, int]) -> str:
    """Return a line with the peak of each worker, the largest first."""
    largest = sorted(peaks.items(), key=lambda pair: -pair[1])
    return "peak memory: " + ", ".join(f"{worker} {peak} MB" for worker, peak in largest)
