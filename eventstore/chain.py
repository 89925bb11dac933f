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
    text: str
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
    frames: dict[tuple[object, ...], _Frame] = {}
    sealed = []
    version, previous = after
    try:
        for event in events:
            version += 1
            _, type_, schema_version, _, actor, session, _, correlation_id, occurred_at = event
            shared = (type_, schema_version, actor, session, correlation_id, occurred_at)
            frame = frames.get(shared)
            if frame is None:
                frame = frames[shared] = _frame(event, stamp)
            text = _framed(event, version, previous, frame)
            previous = digest(text)
            sealed.append(Sealed(version, event, text.decode(), previous))
    except TypeError as error:
        raise InvalidData(f"envelope of {stamp.stream}", str(error)) from error
    return sealed


class _Frame(NamedTuple):
    """The canonical text around what differs from event to event of one append.

    The keys stand here in order, as encoding a dictionary takes thrice as long.
    """

    before_causation: bytes
    before_data: bytes
    before_hash: bytes
    before_version: bytes


def _frame(event: NewEvent, stamp: Stamp) -> _Frame:
    kind, name = event.actor
    return _Frame(
        b'{"actor":{"kind":%b,"name":%b},"causation_id":' % (dumps(kind), dumps(name)),
        b',"command_id":%b,"correlation_id":%b,"data":'
        % (dumps(stamp.command_id), dumps(event.correlation_id)),
        b',"occurred_at":%b,"prev_hash":"' % dumps(event.occurred_at),
        b'","recorded_at":%b,"schema_version":%b,"session":%b,"stream":%b,"type":%b'
        b',"utc_offset":%b,"version":'
        % (
            *(dumps(stamp.recorded_at), dumps(event.schema_version), dumps(event.session)),
            *(dumps(stamp.stream), dumps(event.type), dumps(stamp.utc_offset)),
        ),
    )


def _framed(event: NewEvent, version: int, previous: str, frame: _Frame) -> bytes:
    return b'%b%b%b%b,"event_id":%b%b%b%b%d}' % (
        frame.before_causation,
        dumps(event.causation_id),
        frame.before_data,
        canonical(event.data, event.type),
        dumps(event.event_id),
        frame.before_hash,
        previous.encode(),
        frame.before_version,
        version,
    )
