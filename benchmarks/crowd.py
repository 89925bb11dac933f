"""Many processes on one log, beside one process that does as much."""

import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measurement import in_fresh_folder
from migrations.upgrade import upgrade

TOTAL = 2000
WRITERS = (1, 2, 8, 40)


def report(rounds: int, disk: Path) -> str:
    """Throughput and the longest wait for each number of writers, medians over the rounds."""
    lines = [
        f"### {TOTAL:,} appends to one stream by several processes",
        "",
        "| journal | writers | median, events/s | of one | longest wait, ms (median, most) |",
        "|---|---:|---:|---:|---:|",
    ]
    for journal in ("wal", "truncate"):
        lines += _of_journal(journal, rounds, disk)
    return "\n".join([*lines, ""])


def _of_journal(journal: str, rounds: int, disk: Path) -> list[str]:
    rates: dict[int, list[float]] = {writers: [] for writers in WRITERS}
    waits: dict[int, list[float]] = {writers: [] for writers in WRITERS}
    for _ in range(rounds):
        for writers in WRITERS:
            rate, wait = in_fresh_folder(partial(_crowd, journal, writers), disk)
            rates[writers].append(rate)
            waits[writers].append(wait)
    one = statistics.median(rates[1])
    return [_line(journal, n, rates[n], waits[n], one) for n in WRITERS]


def _line(journal: str, writers: int, rates: list[float], waits: list[float], one: float) -> str:
    rate, wait = statistics.median(rates), statistics.median(waits) * 1000
    return (
        f"| {journal} | {writers} | {rate:,.0f} | {rate / one:.2f} x | "
        f"{wait:.0f}, {max(waits) * 1000:.0f} |"
    )


def _crowd(journal: str, writers: int, folder: Path) -> tuple[float, float]:
    path = folder / "events.db"
    upgrade(path)
    arguments = [str(path), journal, str(writers), str(TOTAL // writers), "1", "0"]
    command = [sys.executable, "-m", "tests.eventstore.crowd", *arguments]
    done = subprocess.run(command, check=True, capture_output=True)
    reports: list[dict[str, Any]] = json.loads(done.stdout)["writers"]
    seconds = max(r["ended"] for r in reports) - min(r["began"] for r in reports)
    return TOTAL / seconds, max(r["longest"] for r in reports)
