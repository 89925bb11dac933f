"""Compare many processes that write to one log with a single process.

The measurement starts when all processes have opened the log and appended a few events to streams
of their own. No process exits before the last one has finished. The result therefore does not
include opening the log, compiling SQL statements, the first use of memory pages after a fork, and
the exit of processes.
"""

import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measurement import in_fresh_folder
from migrations.upgrade import upgrade_database

# Total appends of a measurement. With 1,000, each of forty writers appends 25 events. With 20,000,
# the start and the end of the writers hardly affect the rate.
TOTALS = (1000, 20_000)
REHEARSALS = 5
JOURNALS = ("wal", "truncate")


class Crowd(NamedTuple):
    """The number of concurrent writers, and the number of streams that they share."""

    writers: int
    streams: int


CROWDS = (Crowd(1, 1), Crowd(2, 1), Crowd(8, 1), Crowd(40, 1), Crowd(40, 40))


def report(rounds: int, disk: Path) -> str:
    """Return tables of the median throughput and the longest waits of each crowd."""
    return "\n".join(_table(total, rounds, disk) for total in TOTALS)


def _table(total: int, rounds: int, disk: Path) -> str:
    lines = [
        f"### {total:,} appends by several processes",
        "",
        "| journal | writers | streams | events/s | of one | longest wait, ms: median, most |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for journal in JOURNALS:
        lines += _of_journal(journal, total, rounds, disk)
    return "\n".join([*lines, ""])


def _of_journal(journal: str, total: int, rounds: int, disk: Path) -> list[str]:
    rates: dict[Crowd, list[float]] = {crowd: [] for crowd in CROWDS}
    waits: dict[Crowd, list[float]] = {crowd: [] for crowd in CROWDS}
    for _ in range(rounds):
        for crowd in CROWDS:
            rate, wait = in_fresh_folder(partial(_run, journal, crowd, total), disk)
            rates[crowd].append(rate)
            waits[crowd].append(wait)
    one = statistics.median(rates[CROWDS[0]])
    return [_line(journal, crowd, rates[crowd], waits[crowd], one) for crowd in CROWDS]


def _line(journal: str, crowd: Crowd, rates: list[float], waits: list[float], one: float) -> str:
    rate, wait = statistics.median(rates), statistics.median(waits) * 1000
    return (
        f"| {journal} | {crowd.writers} | {crowd.streams} | {rate:,.0f} | {rate / one:.2f} x | "
        f"{wait:.0f}, {max(waits) * 1000:.0f} |"
    )


def _run(journal: str, crowd: Crowd, total: int, folder: Path) -> tuple[float, float]:
    path = folder / "events.db"
    upgrade_database(path)
    numbers = (crowd.writers, total // crowd.writers, crowd.streams, 0, REHEARSALS)
    arguments = [str(path), journal, *map(str, numbers)]
    command = [sys.executable, "-m", "tests.eventstore.crowd", *arguments]
    done = subprocess.run(command, check=True, capture_output=True)
    reports: list[dict[str, Any]] = json.loads(done.stdout)["writers"]
    seconds = max(r["ended"] for r in reports) - min(r["began"] for r in reports)
    return total / seconds, max(r["longest"] for r in reports)
