"""Compute the total time of each kind of test, and the peak memory of the workers.

The elapsed seconds depend on the load of the machine. The processor seconds show the cost of a
test: they include the process of the test, its awaited children and the commands forked for the
test. Processes that outlive a test, such as daemons, are not included.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest

from tests import forked


class Total(NamedTuple):
    """The tests of one kind: their number, elapsed seconds and processor seconds."""

    tests: int
    seconds: float
    processor: float


def spent() -> float:
    """Return the processor seconds of this process, its children and the forked commands."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both) + forked.spent()


def totals(reports: Iterable[pytest.TestReport]) -> dict[str, Total]:
    """Return the total time of the tests in each folder, the largest total first."""
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
    """Return the processor seconds of a phase of a test (setup, call or teardown)."""
    return float(getattr(report, "processor", 0.0))


def dearest(reports: Iterable[pytest.TestReport], number: int) -> list[str]:
    """Return a line for each of the tests that used the most processor time."""
    found: dict[str, float] = defaultdict(float)
    for report in reports:
        found[report.nodeid] += processor_of(report)
    most = sorted(found.items(), key=lambda pair: -pair[1])[:number]
    return [f"{seconds:8.1f} s of CPU  {test}" for test, seconds in most]


def lines(found: dict[str, Total]) -> list[str]:
    """Return a line with the total of each kind of test, and one for all tests."""
    tests, seconds, processor = (sum(column) for column in zip(*found.values(), strict=True))
    named = [*found.items(), ("in all", Total(tests, seconds, processor))]
    return [
        f"{total.seconds:8.1f} s {total.processor:8.1f} s of CPU {total.tests:5} tests  {kind}"
        for kind, total in named
    ]


def memory_peak() -> int:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def memory_line(peaks: Mapping[str, int]) -> str:
    """Return a line with the peak memory of each worker, the largest first."""
    largest = sorted(peaks.items(), key=lambda pair: -pair[1])
    return "peak memory: " + ", ".join(f"{worker} {peak} MB" for worker, peak in largest)
