"""A connection that is cut after any byte of an append: what was acknowledged is there, once."""

from contextlib import closing

import pytest

from eventstore.errors import StoreUnreachable
from eventstore.store import Claim, EventStore, Expected
from tests.eventstore.support import note, opened
from tests.eventstore.wire import DOWN, UP, Wire
from tests.rounds import first
from tests.server import Server


def put(store: EventStore, name: str, size: int) -> bool:
    """Append so many events as one command; return whether it was done before."""
    events = [note("x" * 40, event_id=f"{name}-{n}") for n in range(size)]
    done = store.append("w", events, expected=Expected.ANY, claim=Claim(name, name))
    assert [event.event_id for event in done.events] == [event.event_id for event in events]
    return done.repeated


def bytes_of_an_append(server: Server, size: int, *, known: bool) -> dict[str, int]:
    """Return how many bytes go in each direction."""
    url = server.log()
    with Wire(server.data) as wire, closing(opened(wire.url(url, server.data))) as store:
        if known:
            put(store, "before", 1)
        wire.count()
        put(store, "measured", size)
        return dict(wire.passed)


def cut_everywhere(server: Server, size: int, step: int, *, known: bool) -> None:
    """Cut the n-th byte of an append for every n; each command must be there once and whole.

    `known`: by a store that knows the head, as it wrote an event before.
    """
    url, given = server.log(), []
    reached = bytes_of_an_append(server, size, known=known)
    with Wire(server.data) as wire:
        via = wire.url(url, server.data)
        points = [(way, n) for way in (UP, DOWN) for n in range(0, reached[way] + 1, step)]
        for number, (way, after) in enumerate(points):
            name, patient = f"{way} {after}", number % 2 == 0
            with closing(opened(via, wait=10 if patient else 0)) as store:
                if known:
                    given.append((f"before {name}", 1))
                    assert not put(store, *given[-1])
                given.append((name, size))
                wire.cut(way, after)
                if patient:
                    assert not put(store, name, size)
                else:
                    put_again(store, via, name, size)
                wire.cut(UP, 1 << 40)
    check_each_is_there_once(url, given)


def put_again(store: EventStore, url: str, name: str, size: int) -> None:
    """Append; where the connection is lost, do what the error says: the same command again."""
    try:
        put(store, name, size)
    except StoreUnreachable:
        with closing(opened(url)) as other:
            put(other, name, size)


def check_each_is_there_once(url: str, given: list[tuple[str, int]]) -> None:
    """In the order they were given, in a sound chain."""
    with closing(opened(url)) as store:
        events = [event.event_id for event in store.read("w")]
        assert events == [f"{name}-{n}" for name, size in given for n in range(size)]
        assert list(store.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "known"), first([(3, False), (3, True), (25, False)], 2))
def test_an_append_that_is_cut_is_recorded_once(server: Server, size: int, known: bool) -> None:
    """At some points, by the store's own second try and by the caller's.

    In turn, at once after a known head, and copied as 25 events are.
    """
    cut_everywhere(server, size, step=331, known=known)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("size", "step", "known"), [(1, 1, False), (1, 1, True), (3, 23, False), (25, 211, False)]
)
def test_an_append_that_is_cut_anywhere_is_recorded_once(
    server: Server, size: int, step: int, known: bool
) -> None:
    """A single event at every byte, more at very many points."""
    cut_everywhere(server, size, step, known=known)
