"""Measure how long wfctl takes to reconcile many running stages.

Usage: ``python -m benchmarks.reconcile [COUNT …]``.

To reconcile is to compare the log with jobs and processes. Each workflow is reconciled three times:
first to record the state of every attempt, then without a change, and then after all jobs have
ended. The output has the total seconds and the milliseconds per stage, each as elapsed time and as
processor time of this process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.running_stages import finish, jobs_of, make, monitored
from reconciler.control.reconcile import reconcile_stages

_COUNTS = (250, 500, 1_000)


def measure(path: Path) -> tuple[float, float]:
    """Reconcile the workflow once, and return the elapsed and the processor seconds."""
    with jobs_of(path) as jobs:
        clock, work = time.perf_counter(), time.process_time()
        reconcile_stages(jobs)
        return time.perf_counter() - clock, time.process_time() - work


def rounds(path: Path, count: int) -> dict[str, tuple[float, float]]:
    """Return the times of the three reconciliations of a new workflow, by their names."""
    make(path, count)
    with monitored(path, count):
        first, again = measure(path), measure(path)
    finish(path, count)
    return {"first look": first, "nothing new": again, "all have ended": measure(path)}


def show(count: int, taken: dict[str, tuple[float, float]], say: Callable[[str], None]) -> None:
    """Print one line for each reconciliation."""
    for name, (clock, work) in taken.items():
        each = f"{1e3 * clock / count:6.3f} {1e3 * work / count:6.3f}"
        say(f"{count:6} stages  {name:<15} {clock:7.3f} s {work:7.3f} s of work  {each} ms each")


def main(arguments: list[str]) -> None:
    """Measure workflows with each given number of stages."""
    for count in map(int, arguments or map(str, _COUNTS)):
        with tempfile.TemporaryDirectory() as folder:
            show(count, rounds(Path(folder) / "root", count), print)


if __name__ == "__main__":
    main(sys.argv[1:])
