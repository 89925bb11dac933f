"""The hash chain: each event carries the hash of the one before."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from orjson import OPT_UTC_Z, dumps

from eventstore.codec import encoded, require_finite
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


class Stamp(NamedTuple):
    """What an append adds to each of its events."""

    stream: str
    command_id: str
    recorded_at: str
    utc_offset: str


def stamp(stream: str, command_id: str, now: datetime) -> Stamp:
    """The stamp of an append at `now`, an aware local time."""
    return Stamp(stream, command_id, _utc(now), _offset(now.utcoffset() or timedelta()))


def _utc(moment: datetime) -> str:
    """Written by the encoder, as `isoformat` takes several times as long."""
    text = dumps(moment.astimezone(UTC), option=OPT_UTC_Z).decode()[1:-1]
    # It leaves out a fraction of zero.
    return text if moment.microsecond else f"{text[:-1]}.000000Z"


@cache
def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    hours, minutes = divmod(abs(minutes), 60)
    return f"{'-' if offset < timedelta() else '+'}{hours:02}:{minutes:02}"


def seal(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> tuple[list[Sealed], Link]:
    """The events as links of the chain that ends at `after`, and its end then.

    Raises InvalidData.
    """
    stream, recorded_at = stamp.stream, stamp.recorded_at
    sealed = []
    version, hash_ = after
    for event in events:
        version += 1
        text = _text(event, version, hash_, stamp)
        hash_ = sha256(text).hexdigest()
        columns = (event.event_id, event.type, recorded_at, hash_, text.decode())
        sealed.append((stream, version, *columns))
    return sealed, Link(version, hash_)


def _text(event: NewEvent, version: int, previous: str, stamp: Stamp) -> bytes:
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
    return text
