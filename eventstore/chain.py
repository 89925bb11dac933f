"""The hash chain: each event carries the hash of the one before."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import orjson

from eventstore.codec import canonical, digest
from eventstore.event import NewEvent

ZERO = "0" * 64


class Link(NamedTuple):
    """A place in a chain: a version and its hash."""

    version: int
    hash: str


START = Link(0, ZERO)


class Sealed(NamedTuple):
    """An event ready to be stored."""

    version: int
    event: NewEvent
    text: bytes
    hash: str


class Stamp(NamedTuple):
    """What an append adds to each of its events."""

    stream: str
    command_id: str
    recorded_at: str
    utc_offset: str


def stamp(stream: str, command_id: str, now: datetime) -> Stamp:
    """The stamp of an append at `now`, an aware local time."""
    recorded_at = now.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
    return Stamp(stream, command_id, recorded_at, now.isoformat(timespec="microseconds")[26:32])


def seal(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> list[Sealed]:
    """The events as links of the chain that ends at `after`. Raises InvalidData."""
    sealed = []
    version, previous = after
    for event in events:
        version += 1
        text = _envelope(event, version, previous, stamp)
        previous = digest(text)
        sealed.append(Sealed(version, event, text, previous))
    return sealed


def _envelope(event: NewEvent, version: int, previous: str, stamp: Stamp) -> bytes:
    kind, name = event.actor
    body = {
        "actor": {"kind": kind, "name": name},
        "causation_id": event.causation_id,
        "command_id": stamp.command_id,
        "correlation_id": event.correlation_id,
        "data": orjson.Fragment(canonical(event.data, event.type)),
        "event_id": event.event_id,
        "occurred_at": event.occurred_at,
        "prev_hash": previous,
        "recorded_at": stamp.recorded_at,
        "schema_version": event.schema_version,
        "session": event.session,
        "stream": stamp.stream,
        "type": event.type,
        "utc_offset": stamp.utc_offset,
        "version": version,
    }
    return canonical(body, event.type)
