"""The hash chain: each event carries the hash of the one before."""

from collections.abc import Sequence
from typing import NamedTuple

from eventstore.codec import digest, encoded, require_finite
from eventstore.event import NewEvent

ZERO = "0" * 64


class Link(NamedTuple):
    """A place in a chain: a version and its hash."""

    version: int
    hash: str


START = Link(0, ZERO)


#: An event ready to be stored: its row, but for the position. That is its stream, version, event
#: id, type, recorded at, hash and text; a plain tuple, as one is made for each event of a batch.
Sealed = tuple[str, int, str, str, str, str, str]


#: What an append adds to each of its events: stream, command id, and the `Instant` of the append.
Stamp = tuple[str, str, str, str]


def seal(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> tuple[list[Sealed], Link]:
    """The events as links of the chain that ends at `after`, and its end then.

    Raises InvalidData.
    """
    sealed = []
    version, hash_ = after
    for event in events:
        version += 1
        link = linked(event, version, hash_, stamp)
        hash_ = link[5]
        sealed.append(link)
    return sealed, Link(version, hash_)


def linked(event: NewEvent, version: int, previous: str, stamp: Stamp) -> Sealed:
    """The event as the link of this version, after one of that hash. Raises InvalidData."""
    stream, command_id, recorded_at, utc_offset = stamp
    event_id, type_, schema_version, data, actor, session, causation, correlation, at = event
    envelope = {
        "actor": {"kind": actor[0], "name": actor[1]},
        "causation_id": causation,
        "command_id": command_id,
        "correlation_id": correlation,
        "data": data,
        "event_id": event_id,
        "occurred_at": at,
        "prev_hash": previous,
        "recorded_at": recorded_at,
        "schema_version": schema_version,
        "session": session,
        "stream": stream,
        "type": type_,
        "utc_offset": utc_offset,
        "version": version,
    }
    text = encoded(envelope, type_)
    require_finite(data, type_)
    hash_ = digest(text)
    return stream, version, event_id, type_, recorded_at, hash_, text.decode()
