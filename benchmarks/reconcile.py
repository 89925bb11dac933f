"""What reconciling many running stages costs: ``python -m benchmarks.reconcile [COUNT …]``.

Three looks at each root: the first, which records what every attempt does; one if nothing has
changed; one where every job has ended. Seconds of the whole and milliseconds a stage, of the
clock and of this process's own work.
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
    """Reconcile once; return seconds of the clock and of work."""
    with jobs_of(path) as jobs:
        clock, work = time.perf_counter(), time.process_time()
        reconcile_stages(jobs)
        return time.perf_counter() - clock, time.process_time() - work


def rounds(path: Path, count: int) -> dict[str, tuple[float, float]]:
    """Return what each of the three looks takes."""
    make(path, count)
    with monitored(path, count):
        first, again = measure(path), measure(path)
    finish(path, count)
    return {"first look": first, "nothing new": again, "all have ended": measure(path)}


def show(count: int, taken: dict[str, tuple[float, float]], say: Callable[[str], None]) -> None:
    """Print a line a look."""
    for name, (clock, work) in taken.items():
        each = f"{1e3 * clock / count:6.3f} {1e3 * work / count:6.3f}"
        say(f"{count:6} stages  {name:<15} {clock:7.3f} s {work:7.3f} s of work  {each} ms each")


def main(arguments: list[str]) -> None:
    """Measure for each count."""
    for count in map(int, arguments or map(str, _COUNTS)):
        with tempfile.TemporaryDirectory() as folder:
            show(count, rounds(Path(folder) / "root", count), print)


if __name__ == "__main__":
    main(sys.argv[1:])
