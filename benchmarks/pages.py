"""Measure the speed and memory of the live web pages: `python -m benchmarks.pages`."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

from tests.cli.support import call, write_plan
from tests.exports import test_long_log as long_log
from tests.pages.support import Served, served

#: Number of pages that are open and followed at the same time.
OPEN = 50
ROUNDS = 5


def main() -> None:
    """Measure each page on each log, and print a table with one row for each."""
    print("| log | page | first, ms | again, ms | kB |")
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name, root in _roots(Path(folder)):
            with served(Path(folder), "--root", str(root)) as pages:
                home = pages.get("/").text.partition('href="/w/')[2].partition('"')[0]
                for page in ("", "stage/stage-2", "history", "search?q=walk", "?at=50"):
                    _tell(name, page or "workflow", pages, f"/w/{home}{page}")
                kilobytes = _open(pages, home)
                print(f"| {name} | memory, {OPEN} open pages | | | {kilobytes:,} |")
                sys.stdout.flush()


def _roots(folder: Path) -> Iterator[tuple[str, Path]]:
    yield "fan of 200 stages", _fan(folder / "fan", 200)
    for events in (10_000, 100_000):
        long_log.EVENTS = events
        root = long_log.written(folder / str(events))
        # A command remembers the last event, as after every change of a real workflow. Otherwise,
        # each page would check all events that other programs may have added.
        assert call("--root", str(root), "note", "The log is complete.").code == 0
        yield f"{events:,} events", root


def _fan(root: Path, width: int) -> Path:
    root.mkdir()
    ends = [f"stage-{number}" for number in range(2, width)]
    stages = [
        {"id": "stage-1", "name": "Prepare"},
        *({"id": one, "name": f"Member {one}", "depends_on": ["stage-1"]} for one in ends),
        {"id": f"stage-{width}", "name": "Gather", "depends_on": ends},
    ]
    plan = write_plan(root.parent, {"workflow_id": "fan-2026-03-31", "stages": stages})
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    return root


def _tell(name: str, page: str, pages: Served, path: str) -> None:
    first, size = _timed(lambda: pages.get(path).text)
    again = median([_timed(lambda: pages.get(path).text)[0] for _ in range(ROUNDS)])
    print(f"| {name} | {page} | {first * 1e3:.0f} | {again * 1e3:.0f} | {size / 1e3:.0f} |")


def _timed(ask: Callable[[], str]) -> tuple[float, int]:
    began = time.perf_counter()
    text = ask()
    return time.perf_counter() - began, len(text.encode())


def _open(pages: Served, home: str) -> int:
    """Return the memory of the server in kB while 50 pages are open and follow the log."""
    streams = []
    for _ in range(OPEN):
        asked = socket.create_connection(("127.0.0.1", pages.port), 60)
        line = f"GET /w/{home}changes HTTP/1.1\r\nHost: localhost\r\nCookie: {pages.cookie}\r\n\r\n"
        asked.sendall(line.encode())
        streams.append(asked)
        pages.get(f"/w/{home}")
    status = Path(f"/proc/{pages.process.pid}/status").read_text()
    for asked in islice(streams, OPEN):
        asked.close()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


if __name__ == "__main__":
    main()
