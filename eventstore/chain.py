"""The hash chain: each event carries the hash of the one before."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from orjson import dumps

from eventstore.codec import canonical, digest
from eventstore.errors import InvalidData
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
    return Stamp(stream, command_id, recorded_at, _offset(now.utcoffset() or timedelta()))


@cache
def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    hours, minutes = divmod(abs(minutes), 60)
    return f"{'-' if offset < timedelta() else '+'}{hours:02}:{minutes:02}"


def seal(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> list[Sealed]:
    """The events as links of the chain that ends at `after`. Raises InvalidData."""
    common = _common(stamp)
    sealed = []
    version, previous = after
    try:
        for event in events:
            version += 1
            text = _envelope(event, version, previous, common)
            previous = digest(text)
            sealed.append(Sealed(version, event, text, previous))
    except TypeError as error:
        raise InvalidData(f"envelope of {stamp.stream}", str(error)) from error
    return sealed


class _Common(NamedTuple):
    """Pieces of text that all envelopes of one append share."""

    command: bytes
    recorded: bytes
    stream: bytes
    offset: bytes


def _common(stamp: Stamp) -> _Common:
    return _Common(
        b',"command_id":' + dumps(stamp.command_id) + b',"correlation_id":',
        b'","recorded_at":' + dumps(stamp.recorded_at) + b',"schema_version":',
        b',"stream":' + dumps(stamp.stream) + b',"type":',
        b',"utc_offset":' + dumps(stamp.utc_offset) + b',"version":',
    )


def _envelope(event: NewEvent, version: int, previous: str, common: _Common) -> bytes:
    """The canonical text: the keys stand here in order, as encoding a dictionary takes thrice."""
    kind, name = event.actor
    command, recorded, stream, offset = common
    return b"".join(
        (
            *(b'{"actor":{"kind":', dumps(kind), b',"name":', dumps(name)),
            *(b'},"causation_id":', dumps(event.causation_id)),
            *(command, dumps(event.correlation_id)),
            *(b',"data":', canonical(event.data, event.type)),
            *(b',"event_id":', dumps(event.event_id)),
            *(b',"occurred_at":', dumps(event.occurred_at)),
            *(b',"prev_hash":"', previous.encode()),
            *(recorded, dumps(event.schema_version)),
            *(b',"session":', dumps(event.session)),
            *(stream, dumps(event.type)),
            *(offset, dumps(version), b"}"),
        )
    )
