"""Measure the speeds that docs/develop/performance.md lists, and print them as tables.

`python -m benchmarks [--rounds N] [--disk DIR] [--only WORK …] [--long]`
"""

import argparse
import os
import platform
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import crowd, history, ours, processes, verification
from benchmarks.measurement import in_fresh_folder, interleaved, table

#: Names of the measurements that compare wfctl with other event stores, which the package extra
#: `bench` installs.
BESIDE_OTHERS = ("append", "dbos", "truncate", "batch", "read")


def main() -> None:
    """Run the measurements named by ``--only``, or all of them, and print their tables."""
    options = _options()
    print(f"# {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores")
    print("#", " ".join(["python -m benchmarks", *sys.argv[1:]]), "\n")
    works = _works(options)
    for name in options.only or works:
        print(works[name](), flush=True)


def _works(options: argparse.Namespace) -> dict[str, Callable[[], str]]:
    """Return all measurements by name: functions that measure and return a table."""
    return {name: _comparison(name, options) for name in BESIDE_OTHERS} | {
        "crowd": lambda: crowd.report(options.rounds, options.disk),
        "growth": lambda: _growth(options),
        "rehydrate": lambda: _rehydrated(options),
        "open": lambda: _opened(options),
        "history": lambda: history.report(options.longest, options.disk),
        "verification": lambda: verification.report(options.rounds, options.disk),
        "process": lambda: processes.report(options.rounds, options.disk),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--disk", type=Path, default=Path.cwd(), help="where databases are made")
    parser.add_argument("--longest", type=int, default=1_000_000, help="events in the long stream")
    names = ", ".join(_works(argparse.Namespace()))
    parser.add_argument("--only", nargs="*", default=[], metavar="WORK", help=f"of {names}")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in _works(options)]
    if unknown:
        parser.error(f"--only: expected some of {names}, found {', '.join(unknown)}")
    return options


def _comparison(name: str, options: argparse.Namespace) -> Callable[[], str]:
    def compared() -> str:
        from benchmarks.comparisons import compare  # the others may not be installed

        return compare(name, options.rounds, options.disk)

    return compared


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
