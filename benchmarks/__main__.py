"""Print every table of docs/performance.md, measured here and now.

`python -m benchmarks [--rounds N] [--disk DIR] [--only WORK …] [--long]`
"""

import argparse
import os
import platform
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import core, crowd, history, others, ours, processes
from benchmarks.measurement import Contender, in_fresh_folder, interleaved, table

# Short works get more rounds: what else a machine does comes in bursts of seconds.
MORE_ROUNDS = {"append": 5, "truncate": 3, "batch": 3}

COMPARISONS: dict[str, tuple[str, str, list[Contender]]] = {
    "append": (
        "Durable append, one event a transaction (WAL, FULL)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles),
            ("raw sqlite3", others.raw_singles),
            ("SQLAlchemy Core", core.singles),
            ("… with a version check", core.checked_singles),
            ("eventsourcing", others.eventsourcing_singles),
        ],
    ),
    "dbos": (
        "Durable append beside steps of DBOS (both at FULL)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles),
            ("DBOS steps", others.dbos_steps),
        ],
    ),
    "truncate": (
        "Durable append, one event a transaction (TRUNCATE, EXTRA)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles_truncate),
            ("raw sqlite3", others.raw_singles_truncate),
        ],
    ),
    "batch": (
        "Batch of 1,000 in one transaction",
        "events/s",
        [
            ("wfctl eventstore", ours.batches),
            ("raw sqlite3", others.raw_batches),
            ("eventsourcing", others.eventsourcing_batches),
        ],
    ),
    "read": (
        "Read, decode and fold 100,000 events",
        "events/s",
        [
            ("wfctl eventstore", ours.reading),
            ("raw sqlite3, orjson", others.raw_reading),
            ("eventsourcing", others.eventsourcing_reading),
        ],
    ),
}


def main() -> None:
    """Measure what is asked for, everything by default."""
    options = _options()
    print(f"# {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores")
    print("#", " ".join(["python -m benchmarks", *sys.argv[1:]]), "\n")
    works = {name: _comparison(name, options) for name in COMPARISONS}
    works |= {
        "crowd": lambda: crowd.report(options.rounds, options.disk),
        "growth": lambda: _growth(options),
        "rehydrate": lambda: _rehydrated(options),
        "open": lambda: _opened(options),
        "history": lambda: history.report(options.longest, options.disk),
        "process": lambda: processes.report(options.rounds, options.disk),
    }
    for name in options.only or works:
        print(works[name](), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--disk", type=Path, default=Path.cwd(), help="where databases are made")
    parser.add_argument("--longest", type=int, default=1_000_000, help="events in the long stream")
    parser.add_argument("--only", nargs="*", default=[])
    return parser.parse_args()


def _comparison(name: str, options: argparse.Namespace) -> Callable[[], str]:
    title, unit, contenders = COMPARISONS[name]
    rounds = options.rounds * MORE_ROUNDS.get(name, 1)
    return lambda: table(title, unit, interleaved(contenders, rounds, options.disk))


def _opened(options: argparse.Namespace) -> str:
    work = [("wfctl eventstore", ours.open_append_close)]
    return table("Open, append, close", "ms", interleaved(work, options.rounds, options.disk))


def _growth(options: argparse.Namespace) -> str:
    lengths = [n for n in (10, 1000, 100_000, 1_000_000) if n <= options.longest]
    spent = in_fresh_folder(lambda folder: ours.appends_at(folder, lengths), options.disk)
    rows = "\n".join(f"| {n:,} | {t:.0f} |" for n, t in zip(lengths, spent, strict=True))
    title = "### Append to streams of growing length, in turn"
    return f"{title}\n\n| events | median, µs |\n|---:|---:|\n{rows}\n"


def _rehydrated(options: argparse.Namespace) -> str:
    length = options.longest
    stored, seconds, megabytes = in_fresh_folder(
        lambda folder: ours.rehydrated(folder, length), options.disk
    )
    return (
        f"### Rehydrate a stream of {length:,} events\n\n"
        f"From a stored fold 400 events old: {stored:.1f} ms. From the first event: "
        f"{seconds:.2f} s, {length / seconds:,.0f} events/s, {megabytes:.1f} MB more at the peak.\n"
    )


if __name__ == "__main__":
    main()
