"""The fast append of one event gives the same answers as other appends.

It needs a store that knows the last event of the stream.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from eventstore.errors import CommandConflict, EventIdReused, InvalidData, WrongExpectedVersion
from eventstore.sqlite.store import SqliteStore
from eventstore.sqlite.write_queue import WriterLock
from eventstore.store import AppendResult, Expected
from tests.eventstore.support import claim, claim_of, note, notes, sqlite_store


def say(
    store: SqliteStore, stream: str, expected: int | Expected, text: str = "hello"
) -> AppendResult:
    """Append a command with one event that has the id of the command."""
    new = note(text)
    return store.append(stream, [new], expected=expected, claim=claim_of(new))


@pytest.fixture(params=["wal", "truncate"])
def store(database: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    """Yield a store that has appended two events, so that it knows the last event."""
    with closing(sqlite_store(database, request.param)) as store:
        for version in range(2):
            say(store, "w", version)
        yield store


def statements(store: SqliteStore, said: list[str]) -> None:
    """Record every statement of the store's writing connection."""
    assert store._writer is not None
    store._writer.connection.set_trace_callback(said.append)


def overwrite(source: Path, target: Path) -> None:
    """Overwrite a database with another one, as SQLite's `.restore` does."""
    with closing(sqlite3.connect(source)) as log, closing(sqlite3.connect(target)) as other:
        log.backup(other)


@contextmanager
def busy(path: Path) -> Iterator[None]:
    """Hold the writer lock for a moment, so that a writer has to wait."""
    lock = WriterLock(path)
    lock.acquire(1)
    release = threading.Timer(0.05, lock.release)
    release.start()
    try:
        yield
    finally:
        release.join()
        lock.close()


def versions(store: SqliteStore) -> list[tuple[int, int]]:
    """Verify the log, and return position and version of each event of the stream."""
    assert list(store.verify()) == []
    return [(event.position, event.version) for event in store.read("w")]


def test_next_event_is_one_statement(store: SqliteStore) -> None:
    """A store that made the last append starts no transaction for the next event."""
    said: list[str] = []
    statements(store, said)
    done = say(store, "w", 2, "third")
    assert [line.split()[0] for line in said] == ["INSERT"]
    assert [(event.position, event.data) for event in done.events] == [(3, {"text": "third"})]
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("stream", ["w", "new"])
def test_head_is_read_once_after_a_wait(store: SqliteStore, stream: str) -> None:
    """After a wait for other writers, the store reads the head and then runs one statement."""
    said: list[str] = []
    with closing(sqlite_store(store.path)) as other:
        say(other, "w", 2)
    statements(store, said)
    with busy(store.path):
        say(store, stream, Expected.ANY)
    assert [line.split()[0] for line in said] == ["PRAGMA", "SELECT", "INSERT"]
    assert [event.stream for event in store.read_all(after=2)] == ["w", stream]
    assert list(store.verify()) == []


def test_conflict_after_a_wait_releases_the_lock(store: SqliteStore) -> None:
    """After a conflict, the next writer can append immediately."""
    with closing(sqlite_store(store.path)) as other:
        say(other, "w", 2)
    with busy(store.path), pytest.raises(WrongExpectedVersion):
        say(store, "w", 2)
    with closing(WriterLock(store.path)) as lock:
        assert lock.try_acquire()
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_append_to_another_stream_needs_no_transaction(store: SqliteStore) -> None:
    """Alternating appends to two streams read the head and run one statement."""
    said: list[str] = []
    statements(store, said)
    for version in range(3):
        say(store, "x", version)
        say(store, "w", version + 2)
    assert not [line for line in said if line.startswith("BEGIN")]
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (6, 4), (8, 5)]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_fast_append_checks_the_stream_name(store: SqliteStore, name: str) -> None:
    """The fast append refuses a stream name that some engine cannot store."""
    with pytest.raises(InvalidData):
        say(store, name, Expected.ANY)
    assert [event.stream for event in store.read_all()] == ["w", "w"]


def test_append_follows_events_of_another_store(store: SqliteStore) -> None:
    """The append continues after another store's event, in the same stream or another one."""
    with closing(sqlite_store(store.path)) as other:
        say(other, "other", 0)
        say(store, "w", 2)
        say(other, "w", 3)
        say(store, "w", Expected.ANY)
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (5, 4), (6, 5)]


def test_append_continues_a_restored_older_log(store: SqliteStore, tmp_path: Path) -> None:
    """After an older copy replaced the log, the chain continues the copy."""
    copy = tmp_path / "copy.db"
    overwrite(store.path, copy)
    say(store, "w", 2)
    overwrite(copy, store.path)
    with pytest.raises(WrongExpectedVersion):
        say(store, "w", 3)
    say(store, "w", 2, "again")
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_append_continues_a_replaced_log_of_the_same_length(
    store: SqliteStore, tmp_path: Path
) -> None:
    """The append continues the last event of the new log, not the remembered event."""
    overwrite(store.path, tmp_path / "other.db")
    with closing(sqlite_store(tmp_path / "other.db", "truncate")) as other:
        say(other, "w", 2, "of the copy")
    say(store, "w", 2, "of the log")
    overwrite(tmp_path / "other.db", store.path)
    say(store, "w", 3)
    assert versions(store) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert [event.data for event in store.read("w", after=2, upto=3)] == [{"text": "of the copy"}]


def test_repeated_command_gets_its_first_answer(store: SqliteStore) -> None:
    """A known claim returns its recorded events, and other content raises an error."""
    new = note("once")
    first = store.append("w", [new], expected=2, claim=claim_of(new))
    again = store.append("w", [new], expected=3, claim=claim_of(new))
    assert (again.repeated, again.events) == (True, first.events)
    with pytest.raises(CommandConflict):
        store.append("w", [new], expected=3, claim=claim_of(new, "other"))
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_command_with_a_separate_claim_gets_its_first_answer(
    store: SqliteStore, number: int
) -> None:
    """A repetition as a one-event command gets the first answer and records no event."""
    known = claim()
    with closing(sqlite_store(store.path)) as other:
        first = other.append("x", notes(number), expected=0, claim=known)
    say(store, "w", 2)
    with pytest.raises(CommandConflict):
        store.append("w", [note(event_id=known.command_id)], expected=3, claim=known)
    again = store.append("x", [note(event_id=known.command_id)], expected=number, claim=known)
    assert (again.repeated, again.events) == (True, first.events)
    assert [version for _, version in versions(store)] == [1, 2, 3]


def test_commands_of_all_kinds_share_one_chain(store: SqliteStore) -> None:
    """One-event commands and other commands can alternate."""
    for version in range(2, 8, 3):
        say(store, "w", version)
        store.append("w", notes(1), expected=version + 1, claim=claim())
        say(store, "w", version + 2)
    store.append("w", notes(2), expected=8, claim=claim())
    assert versions(store) == [(n, n) for n in range(1, 11)]
    assert len(list(store.commands())) == 9


def test_refused_append_does_not_affect_the_next_one(store: SqliteStore) -> None:
    """A reused event id or an invalid JSON value records nothing."""
    taken = next(event.event_id for event in store.read("w"))
    with pytest.raises(EventIdReused):
        store.append("w", [note(event_id=taken)], expected=2, claim=claim())
    strange = note(data={"n": float("inf")})
    with pytest.raises(InvalidData):
        store.append("w", [strange], expected=2, claim=claim_of(strange))
    assert store.claim(strange.event_id) is None
    say(store, "w", 2)
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]
