"""The fast append: one SQL statement, used if the store knows the stream's last event."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventstore.database_url import libpq_url
from eventstore.errors import CommandConflict, EventIdReused, InvalidData, WrongExpectedVersion
from eventstore.store import Claim, EventStore, Expected
from extensions.postgres.store import begin_locked_append
from tests.eventstore.support import claim, note, notes, opened
from tests.eventstore.test_postgres import TURN, put, sql
from tests.server import Server


@pytest.fixture
def url(server: Server) -> str:
    """Return the URL of an empty log."""
    return server.log()


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Yield a store that wrote the first event of stream `w` and knows it as the last."""
    with closing(opened(url)) as made:
        made.append("w", notes(1), expected=0, claim=claim())
        yield made


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry each time the writer lock is taken."""
    taken: list[str] = []

    def watched(*arguments: Any) -> Any:
        taken.append("turn")
        return begin_locked_append(*arguments)

    monkeypatch.setattr("extensions.postgres.store.begin_locked_append", watched)
    return taken


def check_whole(store: EventStore, events: int) -> None:
    """Check the number of events, their gapless positions, and their hash chains."""
    assert [event.position for event in store.read_all()] == list(range(1, events + 1))
    assert list(store.verify()) == []


@pytest.mark.parametrize("number", [1, 3, 19])
def test_append_after_a_known_head_takes_no_lock(
    store: EventStore, turns: list[str], number: int
) -> None:
    """The fast append is one statement, and records the same as an append under the lock."""
    for version in (1, 1 + number):
        done = store.append("w", notes(number), expected=version, claim=claim())
        assert [e.position for e in done.events] == [version + n for n in range(1, number + 1)]
    assert turns == []
    check_whole(store, 1 + 2 * number)
    assert [c.last_version for c in store.commands() if c.first_version == 2] == [1 + number]


@pytest.mark.parametrize("expected", [0, 5, Expected.NO_STREAM])
def test_wrong_expected_version_is_reported_by_the_locked_append(
    store: EventStore, expected: int | Expected
) -> None:
    """An append with a wrong expected version raises an error and records nothing."""
    with pytest.raises(WrongExpectedVersion):
        store.append("w", notes(1), expected=expected, claim=claim())
    check_whole(store, 1)


def test_moved_head_is_read_again(store: EventStore, url: str, turns: list[str]) -> None:
    """After another store's append, two appends take the lock, and the third one does not."""
    put(url, "w")
    turns.clear()
    for position in (3, 4, 5):
        done = store.append("w", notes(1), expected=Expected.ANY, claim=claim())
        assert done.events[0].position == position
    assert len(turns) == 2
    check_whole(store, 5)


def test_events_of_other_streams_do_not_prevent_the_fast_append(
    store: EventStore, url: str, turns: list[str]
) -> None:
    """The server assigns the positions, so an append to another stream does not matter."""
    put(url, "other")
    turns.clear()
    done = store.append("w", notes(1), expected=1, claim=claim())
    assert (done.events[0].position, turns) == (3, [])


def test_fast_append_waits_for_the_writer_lock(store: EventStore, url: str) -> None:
    """The fast append waits until the append of another writer is committed."""
    with psycopg.connect(libpq_url(url)) as other, ThreadPoolExecutor() as pool:
        other.execute(TURN)
        other.execute("INSERT INTO events SELECT 2, 'b', 1, 'late', 't', 'r', 'h', '{}'")
        appended = pool.submit(store.append, "w", notes(1), expected=1, claim=claim())
        other.execute("SELECT pg_sleep(0.3)")
        assert not appended.done()
        other.commit()
        assert appended.result().events[0].position == 3


def test_fast_append_checks_claims(store: EventStore) -> None:
    """A repeated command gets its first answer, and another command under its key is refused."""
    events = notes(2)
    store.append("w", events, expected=1, claim=Claim("k", "d"))
    again = store.append("w", notes(2), expected=3, claim=Claim("k", "d"))
    assert again.repeated
    assert [e.event_id for e in again.events] == [e.event_id for e in events]
    store.append("w", notes(1), expected=3, claim=claim())
    with pytest.raises(CommandConflict):
        store.append("w", notes(1), expected=4, claim=Claim("k", "other"))
    check_whole(store, 4)


@pytest.mark.parametrize("place", [0, 2])
def test_reused_event_id_rejects_the_whole_append(store: EventStore, place: int) -> None:
    """If one event of an append has a reused id, no event of the append is recorded."""
    taken = next(iter(store.read("w"))).event_id
    events = notes(3)
    events[place] = note(event_id=taken)
    with pytest.raises(EventIdReused):
        store.append("w", events, expected=1, claim=Claim("k", "d"))
    check_whole(store, 1)
    assert store.claim("k") is None


def test_replaced_log_of_the_same_length_is_noticed(store: EventStore, url: str) -> None:
    """After the history was replaced, the new event continues the new hash chain."""
    sql(url, "ALTER TABLE events DISABLE TRIGGER ALL")
    sql(url, "DELETE FROM events")
    put(url, "w")
    store.append("w", notes(1), expected=1, claim=claim())
    check_whole(store, 2)


@pytest.mark.parametrize("number", [3, 120])
def test_invalid_event_rejects_the_whole_append(store: EventStore, number: int) -> None:
    """If the last event is invalid, no event of a short or a long append is recorded."""
    wrong = note(data={"x": float("nan")})
    with pytest.raises(InvalidData, match=r"note\.logged"):
        store.append("w", [*notes(number), wrong], expected=1, claim=claim())
    store.append("w", notes(number), expected=1, claim=claim())
    check_whole(store, 1 + number)
