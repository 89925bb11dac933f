"""An append of one statement, where the store knows the head: what it may never get wrong."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventstore.errors import CommandConflict, EventIdReused, InvalidData, WrongExpectedVersion
from eventstore.postgres.store import take_turn
from eventstore.private import conninfo
from eventstore.store import Claim, EventStore, Expected
from tests.eventstore.support import claim, note, notes, opened
from tests.eventstore.test_postgres import TURN, put, sql
from tests.server import Server


@pytest.fixture
def url(server: Server) -> str:
    """An empty log."""
    return server.log()


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """A store that wrote the first event of the stream `w`, and so knows its head."""
    with closing(opened(url)) as made:
        made.append("w", notes(1), expected=0, claim=claim())
        yield made


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each turn that was taken."""
    taken: list[str] = []

    def watched(*arguments: Any) -> Any:
        taken.append("turn")
        return take_turn(*arguments)

    monkeypatch.setattr("eventstore.postgres.store.take_turn", watched)
    return taken


def check_whole(store: EventStore, events: int) -> None:
    """So many events, their positions without a gap, their chains sound."""
    assert [event.position for event in store.read_all()] == list(range(1, events + 1))
    assert list(store.verify()) == []


@pytest.mark.parametrize("number", [1, 3, 19])
def test_who_goes_on_alone_takes_no_turn(store: EventStore, turns: list[str], number: int) -> None:
    """One statement an append; what it records is what an append in turn records."""
    for version in (1, 1 + number):
        done = store.append("w", notes(number), expected=version, claim=claim())
        assert [e.position for e in done.events] == [version + n for n in range(1, number + 1)]
    assert turns == []
    check_whole(store, 1 + 2 * number)
    assert [c.last_version for c in store.commands() if c.first_version == 2] == [1 + number]


@pytest.mark.parametrize("expected", [0, 5, Expected.NO_STREAM])
def test_a_wrong_expectation_is_told_in_turn(store: EventStore, expected: int | Expected) -> None:
    """As the claim comes first, which only the log knows."""
    with pytest.raises(WrongExpectedVersion):
        store.append("w", notes(1), expected=expected, claim=claim())
    check_whole(store, 1)


def test_a_head_that_has_moved_is_found_anew(store: EventStore, url: str, turns: list[str]) -> None:
    """By another store; the next append after that waits in turn too, and then is alone again."""
    put(url, "w")
    turns.clear()
    for position in (3, 4, 5):
        done = store.append("w", notes(1), expected=Expected.ANY, claim=claim())
        assert done.events[0].position == position
    assert len(turns) == 2
    check_whole(store, 5)


def test_events_of_other_streams_are_no_obstacle(
    store: EventStore, url: str, turns: list[str]
) -> None:
    """The server numbers the events."""
    put(url, "other")
    turns.clear()
    done = store.append("w", notes(1), expected=1, claim=claim())
    assert (done.events[0].position, turns) == (3, [])


def test_whose_turn_it_is_is_respected(store: EventStore, url: str) -> None:
    """An append that is not yet committed is never overtaken."""
    with psycopg.connect(conninfo(url)) as other, ThreadPoolExecutor() as pool:
        other.execute(TURN)
        other.execute("INSERT INTO events SELECT 2, 'b', 1, 'late', 't', 'r', 'h', '{}'")
        appended = pool.submit(store.append, "w", notes(1), expected=1, claim=claim())
        other.execute("SELECT pg_sleep(0.3)")
        assert not appended.done()
        other.commit()
        assert appended.result().events[0].position == 3


def test_a_claim_is_answered_as_before(store: EventStore) -> None:
    """The same command: its first answer; the same key for another: a conflict."""
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
def test_all_or_nothing(store: EventStore, place: int) -> None:
    """An identity that is taken, of whichever event, keeps the whole append out."""
    taken = next(iter(store.read("w"))).event_id
    events = notes(3)
    events[place] = note(event_id=taken)
    with pytest.raises(EventIdReused):
        store.append("w", events, expected=1, claim=Claim("k", "d"))
    check_whole(store, 1)
    assert store.claim("k") is None


def test_a_log_that_was_put_back_is_noticed(store: EventStore, url: str) -> None:
    """Another history of the same length has another head, and the chain continues that."""
    sql(url, "ALTER TABLE events DISABLE TRIGGER ALL")
    sql(url, "DELETE FROM events")
    put(url, "w")
    store.append("w", notes(1), expected=1, claim=claim())
    check_whole(store, 2)


@pytest.mark.parametrize("number", [3, 120])
def test_what_cannot_be_stored_leaves_nothing(store: EventStore, number: int) -> None:
    """The last of a few, and the last of many that are sealed while the first are copied."""
    wrong = note(data={"x": float("nan")})
    with pytest.raises(InvalidData, match=r"note\.logged"):
        store.append("w", [*notes(number), wrong], expected=1, claim=claim())
    store.append("w", notes(number), expected=1, claim=claim())
    check_whole(store, 1 + number)
