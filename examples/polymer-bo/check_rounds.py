"""Check that no later round has changed a number of an earlier one.

Usage: check_rounds.py TABLE EARLIER...

TABLE is the last table of the bootstrap, EARLIER are the tables that the rounds have read. Each
error comes from random numbers: if one was computed a second time, it differs.
"""

import csv
import sys
from pathlib import Path

Errors = dict[str, tuple[str, str]]
"""Sequence → its error, and the seed that led to it."""


def read(path: Path) -> Errors:
    """Return the errors of a table."""
    with path.open(newline="") as file:
        return {
            row["sequence"]: (row["bootstrap_error"], row["seed"]) for row in csv.DictReader(file)
        }


def changed(last: Errors, earlier: list[Errors]) -> list[str]:
    """Return the sequences whose error in an earlier table is not that of the last one."""
    return sorted({key for one in earlier for key in one if one[key] != last.get(key)})


if __name__ == "__main__":
    earlier = [read(Path(path)) for path in sys.argv[2:]]
    again = changed(read(Path(sys.argv[1])), earlier)
    print(f"{len(earlier)} rounds; computed again: {', '.join(again) or 'none'}")
    sys.exit(1 if again else 0)
