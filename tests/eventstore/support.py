"""Events, clocks and stores for the tests of the event log."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.chain import Schema
from eventstore.event import Actor, Clock, NewEvent, instants
from eventstore.private import is_server
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
    """A clock two hours east of Greenwich that moves a second at each look."""
    seconds = count()
    return instants(lambda: FIRST_TICK + timedelta(seconds=next(seconds)))


_serial = count(1)


def note(text: str = "hello", **changed: Any) -> NewEvent:
    """A new event with an id of its own."""
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
    """So many new events."""
    return [note(f"line {n}") for n in range(1, number + 1)]


def claim(content: str = "content") -> Claim:
    """A claim with a command id of its own."""
    return Claim(f"command-{next(_serial)}", content)


def claim_of(event: NewEvent, content: str = "content") -> Claim:
    """The claim of a command that is this one event, which bears its id."""
    return Claim(event.event_id, content)


def fresh_database(folder: Path) -> Path:
    """The path of a new, empty database."""
    path = folder / "events.db"
    made(path)
    return path


def sqlite_store(path: Path, journal: str | None = None, **options: Any) -> SqliteStore:
    """A store on the database at `path` with the tests' schema and clock."""
    values: dict[str, Any] = {"schema": SCHEMA, "clock": ticking(), "journal": journal}
    return open_store(path, **(values | options))


def opened(address: Path | str, journal: str | None = None, **options: Any) -> EventStore:
    """A store on the log at a path or URL."""
    if is_server(str(address)):
        from eventstore.postgres.store import (
            open_server,  # many processes of the tests never need it
        )

        values: dict[str, Any] = {"schema": SCHEMA, "clock": ticking()}
        return open_server(str(address), **(values | options))
    return sqlite_store(Path(address), journal, **options)


class Log(NamedTuple):
    """Where a log is, and its journal or engine."""

    address: str
    journal: str

    def opened(self, **options: Any) -> EventStore:
        """A store on it."""
        return opened(self.address, self.journal, **options)


def wal(folder: Path) -> Iterator[EventStore]:
    """SQLite with a write-ahead log."""
    yield from _closing(sqlite_store(fresh_database(folder), "wal"))


def truncate(folder: Path) -> Iterator[EventStore]:
    """SQLite with a rollback journal."""
    yield from _closing(sqlite_store(fresh_database(folder), "truncate"))


def memory(folder: Path) -> Iterator[EventStore]:
    """No engine at all."""
    yield from _closing(MemoryStore(schema=SCHEMA, clock=ticking()))


def _closing(store: EventStore) -> Iterator[EventStore]:
    try:
        yield store
    finally:
        store.close()


ENGINES = {"sqlite-wal": wal, "sqlite-truncate": truncate, "memory": memory}
