"""Events, clocks and stores for the tests of the event store."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.database_url import is_postgres_url
from eventstore.event import Actor, Clock, NewEvent, build_clock
from eventstore.schema import Schema
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import Claim, EventStore, Refusal
from tests.emptylog import made
from tests.eventstore.memory import MemoryStore

SCHEMA = Schema({"note.logged": 1, "stage.moved": 3}, {("stage.moved", 1): dict})
SOMEONE = Actor("user", "ada")
SUMMER = timezone(timedelta(hours=2))
REFUSAL = Refusal(
    "2026-07-01T10:00:00.000000Z", "w", "agent:bo", "stage.complete", "illegal", "no", {"n": 1}
)
FIRST_TICK = datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=SUMMER)


def ticking() -> Clock:
    """Return a clock at UTC+2 that advances by one second at each call."""
    seconds = count()
    return build_clock(lambda: FIRST_TICK + timedelta(seconds=next(seconds)))


_serial = count(1)


def note(text: str = "hello", **changed: Any) -> NewEvent:
    """Return a new event with a unique id."""
    values: dict[str, Any] = {
        "event_id": f"event-{next(_serial)}",
        "type": "note.logged",
        "schema_version": 1,
        "data": {"text": text},
        "actor": SOMEONE,
        "session": None,
        "causation_id": None,
        "correlation_id": None,
        "occurred_at": "2026-07-01T09:00:00.000000Z",
    }
    return NewEvent(**(values | changed))


def notes(number: int) -> list[NewEvent]:
    """Return the given number of new events."""
    return [note(f"line {n}") for n in range(1, number + 1)]


def claim(content: str = "content") -> Claim:
    """Return a claim with a unique command id."""
    return Claim(f"command-{next(_serial)}", content)


def claim_of(event: NewEvent, content: str = "content") -> Claim:
    """Return the claim of a command that has the id of its only event."""
    return Claim(event.event_id, content)


def fresh_database(folder: Path) -> Path:
    """Create an empty database, and return its path."""
    path = folder / "events.db"
    made(path)
    return path


def sqlite_store(path: Path, journal: str | None = None, **options: Any) -> SqliteStore:
    """Open a store on the database at `path` with the schema and clock of the tests."""
    values: dict[str, Any] = {"schema": SCHEMA, "clock": ticking(), "journal": journal}
    return open_store(path, **(values | options))


def opened(address: Path | str, journal: str | None = None, **options: Any) -> EventStore:
    """Open a store on the log at a path or URL."""
    if is_postgres_url(str(address)):
        from extensions.postgres.store import (
            open_server,  # many test processes do not need this module
        )

        values: dict[str, Any] = {"schema": SCHEMA, "clock": ticking()}
        return open_server(str(address), **(values | options))
    return sqlite_store(Path(address), journal, **options)


class Log(NamedTuple):
    """The address of a log, and its journal mode or engine."""

    address: str
    journal: str

    def opened(self, **options: Any) -> EventStore:
        """Open a store on this log."""
        return opened(self.address, self.journal, **options)


def wal(folder: Path) -> Iterator[EventStore]:
    """Yield a SQLite store with a write-ahead log."""
    yield from _closing(sqlite_store(fresh_database(folder), "wal"))


def truncate(folder: Path) -> Iterator[EventStore]:
    """Yield a SQLite store with a rollback journal."""
    yield from _closing(sqlite_store(fresh_database(folder), "truncate"))


def memory(folder: Path) -> Iterator[EventStore]:
    """Yield a store in memory."""
    yield from _closing(MemoryStore(schema=SCHEMA, clock=ticking()))


def _closing(store: EventStore) -> Iterator[EventStore]:
    try:
        yield store
    finally:
        store.close()


ENGINES = {"sqlite-wal": wal, "sqlite-truncate": truncate, "memory": memory}
