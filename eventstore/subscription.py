"""A subscription: the events of a log, and those that are yet to come."""

from collections.abc import Iterator

from eventstore.event import RecordedEvent
from eventstore.store import EventStore

# Seconds after which a reader looks again even if nothing woke it.
_AT_THE_LATEST = 60.0


def subscribed(
    store: EventStore, *, after: int = 0, stream: str | None = None
) -> Iterator[RecordedEvent]:
    """Every event after position `after`, in order, for ever; with a stream, after that version.

    An event that another process appends is there within half a second, and nothing is done
    meanwhile. Each event comes at least once: the reader keeps the position (or version) of the
    last event it is done with, and begins again after that one.
    Raises what reading raises; on a server, StoreUnreachable where it stays away for longer than
    the store waits.
    """
    position = 0
    while True:
        found = store.read_all(after=after) if stream is None else store.read(stream, after=after)
        for event in found:
            after = event.position if stream is None else event.version
            yield event
        position = store.wait(position, _AT_THE_LATEST)
