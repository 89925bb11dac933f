"""Actions of the disk tests in a process that has another file system mounted."""

import sys
from contextlib import closing
from pathlib import Path

from eventstore.errors import EventStoreError
from tests.eventstore.support import claim, note, sqlite_store


def read(path: Path) -> None:
    """Print the number of events, and the error code of an attempt to append."""
    with closing(sqlite_store(path, read_only=True)) as store:
        print(sum(1 for _ in store.read("w")))
    try:
        sqlite_store(path).append("w", [note()], expected=3, claim=claim())
    except EventStoreError as error:
        print(error.code)


def fill(path: Path, mode: str) -> None:
    """Append until the disk is full.

    Print the number of acknowledged events, the error, the number of recorded events, and the
    number of findings.
    """
    with closing(sqlite_store(path, mode)) as store:
        acknowledged = 0
        try:
            while True:
                store.append("w", [note("x" * 900)], expected=acknowledged, claim=claim())
                acknowledged += 1
        except EventStoreError as error:
            print(acknowledged, error.code)
        print(sum(1 for _ in store.read("w")), len(list(store.verify())))


if __name__ == "__main__":
    command, path, *more = sys.argv[1:]
    if command == "read":
        read(Path(path))
    else:
        fill(Path(path), *more)
