"""One event after a known head: one statement, and the same answers as in any other append."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from eventstore.errors import CommandConflict, EventIdReused, InvalidData, WrongExpectedVersion
from eventstore.sqlite import SqliteStore
from eventstore.store import Expected
from eventstore.writerlock import WriterLock
from tests.eventstore.support import claim, note, notes, sqlite_store


@pytest.fixture(params=["wal", "truncate"])
def store(database: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    """A store that has appended two events one by one: it knows the head, and all is prepared."""
    with closing(sqlite_store(database, request.param)) as store:
        for version in range(2):
            store.append("w", notes(1), expected=version, claim=claim())
        yield store


def statements(store: SqliteStore, said: list[str]) -> None:
    """Have every statement written down that the store's writing connection carries out."""
    assert store._writer is not None
    store._writer.connection.set_trace_callback(said.append)


def put(source: Path, target: Path) -> None:
    """Write one database over another, as SQLite's `.restore` does."""
    with closing(sqlite3.connect(source)) as log, closing(sqlite3.connect(target)) as other:
        log.backup(other)


@contextmanager
def busy(path: Path) -> Iterator[None]:
    """Whoever appends must wait for the turn, and gets it."""
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
    """Position and version of each event of the stream, in a log that is sound."""
    assert list(store.verify()) == []
    return [(event.position, event.version) for event in store.read("w")]


def test_the_next_event_is_one_statement(store: SqliteStore) -> None:
    """Given the head of one's own last append, then no transaction is begun for the next."""
    said: list[str] = []
    statements(store, said)
    done = store.append("w", [note("third")], expected=2, claim=claim())
    # What the trigger does is written down under the statement that called it.
    assert {line.partition(" VALUES")[0] for line in said} == {"INSERT INTO next_event"}
    assert [(event.position, event.data) for event in done.events] == [(3, {"text": "third"})]
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("stream", ["w", "new"])
def test_after_a_wait_a_look_finds_the_head(store: SqliteStore, stream: str) -> None:
    """Given a wait for others who have appended, then a look and the one statement are enough."""
    said: list[str] = []
    with closing(sqlite_store(store.path)) as other:
        other.append("w", notes(1), expected=2, claim=claim())
    statements(store, said)
    with busy(store.path):
        store.append(stream, notes(1), expected=Expected.ANY, claim=claim())
    # What the trigger does is written down too, under the statement that called it.
    assert list(dict.fromkeys(line.split()[0] for line in said)) == ["PRAGMA", "SELECT", "INSERT"]
    assert [event.stream for event in store.read_all(after=2)] == ["w", stream]
    assert list(store.verify()) == []


def test_a_conflict_found_after_a_wait_gives_the_turn_back(store: SqliteStore) -> None:
    """Given a wait for somebody who appended first, then the next one may append at once."""
    with closing(sqlite_store(store.path)) as other:
        other.append("w", notes(1), expected=2, claim=claim())
    with busy(store.path), pytest.raises(WrongExpectedVersion):
        store.append("w", notes(1), expected=2, claim=claim())
    with closing(WriterLock(store.path)) as lock:
        assert lock.granted()
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_another_stream_takes_a_look_and_one_statement(store: SqliteStore) -> None:
    """Given appends to two streams in turn, then none of them begins a transaction."""
    said: list[str] = []
    statements(store, said)
    for version in range(3):
        store.append("x", notes(1), expected=version, claim=claim())
        store.append("w", notes(1), expected=version + 2, claim=claim())
    assert not [line for line in said if line.startswith("BEGIN")]
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (6, 4), (8, 5)]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_stream_must_have_a_name_then_too(store: SqliteStore, name: str) -> None:
    """Given a known head, then a stream that not every engine can name is refused all the same."""
    with pytest.raises(InvalidData):
        store.append(name, notes(1), expected=Expected.ANY, claim=claim())
    assert [event.stream for event in store.read_all()] == ["w", "w"]


def test_nothing_of_it_is_left_in_the_database(store: SqliteStore) -> None:
    """Given a store that has appended so, then another connection sees no view or trigger of it."""
    with closing(sqlite3.connect(store.path)) as other:
        names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    assert not {name for name in names if name.startswith("next_event")}


def test_events_of_others_come_before(store: SqliteStore) -> None:
    """Given an append of another store, to this stream or not, then the next one follows it."""
    with closing(sqlite_store(store.path)) as other:
        other.append("other", notes(1), expected=0, claim=claim())
        store.append("w", notes(1), expected=2, claim=claim())
        other.append("w", notes(1), expected=3, claim=claim())
        store.append("w", notes(1), expected=Expected.ANY, claim=claim())
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (5, 4), (6, 5)]


def test_an_older_log_that_was_put_back_goes_on_where_it_ends(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Given a copy of the log from before, written over it, then the chain continues the copy."""
    copy = tmp_path / "copy.db"
    put(store.path, copy)
    store.append("w", notes(1), expected=2, claim=claim())
    put(copy, store.path)
    with pytest.raises(WrongExpectedVersion):
        store.append("w", notes(1), expected=3, claim=claim())
    store.append("w", [note("again")], expected=2, claim=claim())
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_another_history_of_the_same_length_is_not_continued_as_ones_own(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Given a log that was put back and has grown as long, then its own head is continued."""
    put(store.path, tmp_path / "other.db")
    with closing(sqlite_store(tmp_path / "other.db", "truncate")) as other:
        other.append("w", [note("of the copy")], expected=2, claim=claim())
    store.append("w", [note("of the log")], expected=2, claim=claim())
    put(tmp_path / "other.db", store.path)
    store.append("w", notes(1), expected=3, claim=claim())
    assert versions(store) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert [event.data for event in store.read("w", after=2, upto=3)] == [{"text": "of the copy"}]


def test_a_repeated_command_gets_its_first_answer(store: SqliteStore) -> None:
    """Given a claim that is known, then its events are the answer, or other content an error."""
    known = claim()
    first = store.append("w", [note("once")], expected=2, claim=known)
    again = store.append("w", [note("once")], expected=3, claim=known)
    assert (again.repeated, again.events) == (True, first.events)
    with pytest.raises(CommandConflict):
        store.append("w", [note("twice")], expected=3, claim=known._replace(digest="other"))
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_what_is_refused_leaves_the_next_append_as_it_was(store: SqliteStore) -> None:
    """Given a taken event id, or a value that JSON cannot say, then nothing is recorded."""
    taken = next(event.event_id for event in store.read("w"))
    with pytest.raises(EventIdReused):
        store.append("w", [note(event_id=taken)], expected=2, claim=claim())
    with pytest.raises(InvalidData):
        store.append("w", [note(data={"n": float("inf")})], expected=2, claim=claim())
    store.append("w", notes(1), expected=2, claim=claim())
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]
