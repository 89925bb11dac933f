"""The same measurements with plain sqlite3, the library `eventsourcing` and DBOS."""

import sqlite3
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from benchmarks import raw
from benchmarks.contents import STREAM, counted, data
from benchmarks.ours import BATCH, BATCHES, LENGTH, SINGLES


def raw_singles(folder: Path, journal: str = "wal", level: str = "FULL") -> float:
    """Insert and commit one row at a time with plain sqlite3; return rows per second."""
    rows = raw.rows(SINGLES)
    connection = raw.connection(folder / "raw.db", journal, level)
    start = time.perf_counter()
    for row in rows:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(raw.INSERT, row)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return SINGLES / seconds


def raw_singles_truncate(folder: Path) -> float:
    """Insert and commit one row at a time with plain sqlite3 and a rollback journal."""
    return raw_singles(folder, "truncate", "EXTRA")


def raw_batches(folder: Path) -> float:
    """Insert a thousand rows per transaction with plain sqlite3; return rows per second."""
    rows = raw.rows(BATCH * BATCHES)
    connection = raw.connection(folder / "raw.db")
    start = time.perf_counter()
    for first in range(0, len(rows), BATCH):
        _many(connection, rows[first : first + BATCH])
    seconds = time.perf_counter() - start
    connection.close()
    return len(rows) / seconds


def _many(connection: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(raw.INSERT, rows)
    connection.execute("COMMIT")


def raw_reading(folder: Path) -> float:
    """Read rows with sqlite3, decode and fold them, and return rows per second."""
    connection = raw.connection(folder / "raw.db")
    _many(connection, raw.rows(LENGTH))
    start = time.perf_counter()
    found = connection.execute(
        "SELECT body FROM events WHERE stream = ? ORDER BY version", (STREAM,)
    )
    counted(orjson.loads(body)["data"] for (body,) in found)
    seconds = time.perf_counter() - start
    connection.close()
    return LENGTH / seconds


class Notebook(Aggregate):
    """An aggregate that counts notes, written as in the manual of `eventsourcing`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    @event("Noted")
    def note(self, data: dict[str, Any]) -> None:
        """Add one to the number of notes of the stage."""
        self.counts[data["stage"]] = self.counts.get(data["stage"], 0) + 1


def _application(folder: Path) -> Application[UUID]:
    """Return an `eventsourcing` application on SQLite, with the defaults WAL and FULL."""
    settings = {
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": str(folder / "eventsourcing.db"),
    }
    return Application(env=settings)


def _noted(folder: Path, batch: int, batches: int) -> tuple[Application[UUID], UUID, float]:
    """Save notes in batches; return the application, the notebook's id and the seconds."""
    application, notebook = _application(folder), Notebook()
    application.save(notebook)
    said = list(map(data, range(batch * batches)))
    start = time.perf_counter()
    for first in range(0, batch * batches, batch):
        for number in range(first, first + batch):
            notebook.note(data=said[number])
        application.save(notebook)
    return application, notebook.id, time.perf_counter() - start


def eventsourcing_singles(folder: Path) -> float:
    """Save one event at a time with `eventsourcing`, and return events per second."""
    application, _, seconds = _noted(folder, 1, SINGLES)
    application.close()
    return SINGLES / seconds


def eventsourcing_batches(folder: Path) -> float:
    """Save a thousand events at a time with `eventsourcing`, and return events per second."""
    application, _, seconds = _noted(folder, BATCH, BATCHES)
    application.close()
    return BATCH * BATCHES / seconds


def eventsourcing_reading(folder: Path) -> float:
    """Load an aggregate of `eventsourcing` from its events, and return events per second.

    It has only a fifth of the usual number of events, because loading is slow.
    """
    application, notebook, _ = _noted(folder, BATCH, LENGTH // BATCH // 5)
    start = time.perf_counter()
    application.repository.get(notebook)
    seconds = time.perf_counter() - start
    application.close()
    return LENGTH / 5 / seconds


def dbos_steps(folder: Path, steps: int = 200) -> float:
    """Run a DBOS workflow on SQLite with the default FULL; return steps per second."""
    from dbos import DBOS

    url = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
        }
    )

    @DBOS.step()
    def noted(number: int) -> dict[str, Any]:
        return data(number)

    @DBOS.workflow()
    def work() -> float:
        start = time.perf_counter()
        for number in range(steps):
            noted(number)
        return steps / (time.perf_counter() - start)

    DBOS.launch()
    try:
        return work()
    finally:
        DBOS.destroy(destroy_registry=True)
