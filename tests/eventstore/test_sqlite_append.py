"""One event after a known head: one statement, and the same answers as in any other append."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from eventstore.errors import CommandConflict, EventIdReused, InvalidData, WrongExpectedVersion
from eventstore.sqlite.queue import WriterLock
from eventstore.sqlite.store import SqliteStore
from eventstore.store import Appended, Expected
from tests.eventstore.support import claim, claim_of, note, notes, sqlite_store


def say(store: SqliteStore, stream: str, expected: int | Expected, text: str = "hello") -> Appended:
    """Append a command that is one event, which bears its id."""
    new = note(text)
    return store.append(stream, [new], expected=expected, claim=claim_of(new))


@pytest.fixture(params=["wal", "truncate"])
def store(database: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    """A store that has appended two events one by one: it knows the head, and all is prepared."""
    with closing(sqlite_store(database, request.param)) as store:
        for version in range(2):
            say(store, "w", version)
        yield store


def statements(store: SqliteStore, said: list[str]) -> None:
    """Have every statement written down that the store's writing connection carries out."""
    assert store._writer is not None
    store._writer.connection.set_trace_callback(said.append)


def overwrite(source: Path, target: Path) -> None:
    """Write one database over another, as SQLite's `.restore` does."""
    with closing(sqlite3.connect(source)) as log, closing(sqlite3.connect(target)) as other:
        log.backup(other)


@contextmanager
def busy(path: Path) -> Iterator[None]:
    """Anyone who appends must wait for the turn, and gets it."""
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
    done = say(store, "w", 2, "third")
    assert [line.split()[0] for line in said] == ["INSERT"]
    assert [(event.position, event.data) for event in done.events] == [(3, {"text": "third"})]
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("stream", ["w", "new"])
def test_after_a_wait_a_look_finds_the_head(store: SqliteStore, stream: str) -> None:
    """Given a wait for others who have appended, then a look and the one statement are enough."""
    said: list[str] = []
    with closing(sqlite_store(store.path)) as other:
        say(other, "w", 2)
    statements(store, said)
    with busy(store.path):
        say(store, stream, Expected.ANY)
    assert [line.split()[0] for line in said] == ["PRAGMA", "SELECT", "INSERT"]
    assert [event.stream for event in store.read_all(after=2)] == ["w", stream]
    assert list(store.verify()) == []


def test_a_conflict_found_after_a_wait_gives_the_turn_back(store: SqliteStore) -> None:
    """Given a wait for somebody who appended first, then the next one may append at once."""
    with closing(sqlite_store(store.path)) as other:
        say(other, "w", 2)
    with busy(store.path), pytest.raises(WrongExpectedVersion):
        say(store, "w", 2)
    with closing(WriterLock(store.path)) as lock:
        assert lock.granted()
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_another_stream_takes_a_look_and_one_statement(store: SqliteStore) -> None:
    """Given appends to two streams in turn, then none of them begins a transaction."""
    said: list[str] = []
    statements(store, said)
    for version in range(3):
        say(store, "x", version)
        say(store, "w", version + 2)
    assert not [line for line in said if line.startswith("BEGIN")]
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (6, 4), (8, 5)]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_stream_must_have_a_name_then_too(store: SqliteStore, name: str) -> None:
    """Given a known head, then a stream that not every engine can name is refused all the same."""
    with pytest.raises(InvalidData):
        say(store, name, Expected.ANY)
    assert [event.stream for event in store.read_all()] == ["w", "w"]


def test_events_of_others_come_before(store: SqliteStore) -> None:
    """Given an append of another store, to this stream or not, then the next one follows it."""
    with closing(sqlite_store(store.path)) as other:
        say(other, "other", 0)
        say(store, "w", 2)
        say(other, "w", 3)
        say(store, "w", Expected.ANY)
    assert versions(store) == [(1, 1), (2, 2), (4, 3), (5, 4), (6, 5)]


def test_an_older_log_that_was_put_back_goes_on_where_it_ends(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Given a copy of the log from before, written over it, then the chain continues the copy."""
    copy = tmp_path / "copy.db"
    overwrite(store.path, copy)
    say(store, "w", 2)
    overwrite(copy, store.path)
    with pytest.raises(WrongExpectedVersion):
        say(store, "w", 3)
    say(store, "w", 2, "again")
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


def test_another_history_of_the_same_length_is_not_continued_as_ones_own(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Given a log that was put back and has grown as long, then its own head is continued."""
    overwrite(store.path, tmp_path / "other.db")
    with closing(sqlite_store(tmp_path / "other.db", "truncate")) as other:
        say(other, "w", 2, "of the copy")
    say(store, "w", 2, "of the log")
    overwrite(tmp_path / "other.db", store.path)
    say(store, "w", 3)
    assert versions(store) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert [event.data for event in store.read("w", after=2, upto=3)] == [{"text": "of the copy"}]


def test_a_repeated_command_gets_its_first_answer(store: SqliteStore) -> None:
    """Given a claim that is known, then its events are the answer, or other content an error."""
    new = note("once")
    first = store.append("w", [new], expected=2, claim=claim_of(new))
    again = store.append("w", [new], expected=3, claim=claim_of(new))
    assert (again.repeated, again.events) == (True, first.events)
    with pytest.raises(CommandConflict):
        store.append("w", [new], expected=3, claim=claim_of(new, "other"))
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_command_that_is_known_otherwise_gets_its_first_answer(
    store: SqliteStore, number: int
) -> None:
    """Given a claim with a row of its own, then one event that bears its id is not recorded."""
    known = claim()
    with closing(sqlite_store(store.path)) as other:
        first = other.append("x", notes(number), expected=0, claim=known)
    say(store, "w", 2)
    with pytest.raises(CommandConflict):
        store.append("w", [note(event_id=known.command_id)], expected=3, claim=known)
    again = store.append("x", [note(event_id=known.command_id)], expected=number, claim=known)
    assert (again.repeated, again.events) == (True, first.events)
    assert [version for _, version in versions(store)] == [1, 2, 3]


def test_commands_of_all_kinds_follow_each_other(store: SqliteStore) -> None:
    """Given events that are their commands among others that are not, then one chain holds all."""
    for version in range(2, 8, 3):
        say(store, "w", version)
        store.append("w", notes(1), expected=version + 1, claim=claim())
        say(store, "w", version + 2)
    store.append("w", notes(2), expected=8, claim=claim())
    assert versions(store) == [(n, n) for n in range(1, 11)]
    assert len(list(store.commands())) == 9


def test_what_is_refused_leaves_the_next_append_as_it_was(store: SqliteStore) -> None:
    """Given a taken event id, or a value that JSON cannot say, then nothing is recorded."""
    taken = next(event.event_id for event in store.read("w"))
    with pytest.raises(EventIdReused):
        store.append("w", [note(event_id=taken)], expected=2, claim=claim())
    strange = note(data={"n": float("inf")})
    with pytest.raises(InvalidData):
        store.append("w", [strange], expected=2, claim=claim_of(strange))
    assert store.claim(strange.event_id) is None
    say(store, "w", 2)
    assert versions(store) == [(1, 1), (2, 2), (3, 3)]
