"""Plain sqlite3 on a table with the same columns, keys and pragmas as wfctl's event table.

The rows are made before the measurement starts. Their ids and hashes, and checks of data and
version, are therefore not included.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.contents import STREAM, data, fresh_id
from eventstore.chain import START, build_chained_rows
from eventstore.event import Actor, NewEvent
from service.root.atomic_files import system_instant

_TABLE = """CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT NOT NULL,
version INTEGER NOT NULL, event_id TEXT NOT NULL UNIQUE, type TEXT NOT NULL,
recorded_at TEXT NOT NULL, hash TEXT NOT NULL, body TEXT NOT NULL, UNIQUE (stream, version))"""
INSERT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?)"


def connection(path: Path, journal: str = "wal", level: str = "FULL") -> sqlite3.Connection:
    """Create a database with the event table, and return a connection to it."""
    made = sqlite3.connect(path, isolation_level=None)
    made.execute(f"PRAGMA journal_mode={journal}")
    made.execute(f"PRAGMA synchronous={level}")
    made.execute(_TABLE)
    return made


def rows(number: int) -> list[tuple[Any, ...]]:
    """Return the given number of rows, as wfctl's event store would write them."""
    return list(_rows(number))


def _rows(number: int) -> Iterator[tuple[Any, ...]]:
    head, who = START, Actor("agent", "bench")
    for position in range(1, number + 1):
        marked = (STREAM, fresh_id(), *system_instant())
        said, now = data(position), marked[2]
        event = NewEvent(fresh_id(), "note.logged", 1, said, who, None, None, None, now)
        (row,), head = build_chained_rows([event], head, marked)
        yield (position, *row)
