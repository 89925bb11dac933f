"""A connection that is cut after any byte of an append: acknowledged events are recorded once."""

from contextlib import closing

import pytest

from eventstore.errors import StoreUnreachable
from eventstore.store import Claim, EventStore, Expected
from tests.eventstore.support import note, opened
from tests.eventstore.wire import DOWN, UP, Wire
from tests.rounds import first
from tests.server import Server


def put(store: EventStore, name: str, size: int) -> bool:
    """Append the given number of events as one command; return whether it was a repetition."""
    events = [note("x" * 40, event_id=f"{name}-{n}") for n in range(size)]
    done = store.append("w", events, expected=Expected.ANY, claim=Claim(name, name))
    assert [event.event_id for event in done.events] == [event.event_id for event in events]
    return done.repeated


def bytes_of_an_append(server: Server, size: int, *, known: bool) -> dict[str, int]:
    """Return the number of bytes that an append sends in each direction."""
    url = server.log()
    with Wire(server.data) as wire, closing(opened(wire.url(url, server.data))) as store:
        if known:
            put(store, "before", 1)
        wire.count()
        put(store, "measured", size)
        return dict(wire.passed)


def cut_everywhere(server: Server, size: int, step: int, *, known: bool) -> None:
    """Cut each byte of an append in turn, and check that each command is recorded once.

    With `known`, the store wrote an event before, so it knows the last event of the stream.
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
    """Append, and repeat the same command after a lost connection, as the error suggests."""
    try:
        put(store, name, size)
    except StoreUnreachable:
        with closing(opened(url)) as other:
            put(other, name, size)


def check_each_is_there_once(url: str, given: list[tuple[str, int]]) -> None:
    """Check that the events are recorded in the given order, with a valid chain."""
    with closing(opened(url)) as store:
        events = [event.event_id for event in store.read("w")]
        assert events == [f"{name}-{n}" for name, size in given for n in range(size)]
        assert list(store.verify()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "known"), first([(3, False), (3, True), (25, False)], 2))
def test_interrupted_append_is_recorded_once(server: Server, size: int, known: bool) -> None:
    """After a cut, the store or the caller repeats the append, which is recorded once.

    The sizes select the fast, the normal and the bulk append.
    """
    cut_everywhere(server, size, step=331, known=known)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("size", "step", "known"),
    [
        *(pytest.param(1, 1, known, marks=pytest.mark.soak) for known in (False, True)),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [(1, 7, False), (1, 7, True), (3, 23, False), (25, 211, False)]
        ),
    ],
)
def test_append_interrupted_at_any_byte_is_recorded_once(
    server: Server, size: int, step: int, known: bool
) -> None:
    """Wherever an append is cut, each event is recorded once.

    A single event is cut at every byte, and larger appends at many points.
    """
    cut_everywhere(server, size, step, known=known)
