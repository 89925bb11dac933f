"""The data types of events, before and after recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

#: Type of an event that replaces an invalid stored event when the log is read. Programs never
#: record events of this type.
SET_ASIDE = "event.set_aside"

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_OFFSET = re.compile(r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?")
_MAX_TEXT = 1000
_MAX_NUMBER = 2**53 - 1
_NO_TIME = "1970-01-01T00:00:00.000000Z"


def _is_name(value: Any) -> bool:
    return type(value) is str and len(value) <= _MAX_TEXT and "\0" not in value


@lru_cache(maxsize=16)
def _is_known_offset(value: str) -> bool:
    return _OFFSET.fullmatch(value) is not None


def _is_offset(value: Any) -> bool:
    return type(value) is str and _is_known_offset(value)


def _is_moment(value: Any) -> bool:
    return type(value) is str and _is_time(value)


# Both times of an event are usually equal, and all events of a command have the same times. The
# cache avoids parsing them again.
@lru_cache(maxsize=64)
def _is_time(value: str) -> bool:
    """Return whether the value is a time in the log's format.

    The first and last possible years are excluded, because a conversion to another time zone could
    leave the range of `datetime`.
    """
    if _MOMENT.fullmatch(value) is None:
        return False
    try:
        return 1 < datetime.fromisoformat(value).year < 9999
    except ValueError:
        return False


def _is_text_or_nothing(value: Any) -> bool:
    return value is None or _is_name(value)


def _is_actor(value: Any) -> bool:
    named = type(value) is dict and "kind" in value and "name" in value
    return named and _is_name(value["kind"]) and _is_name(value["name"])


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_NUMBER


_PARTS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("data", lambda value: type(value) is dict, "an object"),
    ("occurred_at", _is_moment, "a UTC time such as 2026-03-31T10:00:00.000000Z"),
    ("recorded_at", _is_moment, "a UTC time such as 2026-03-31T10:00:00.000000Z"),
    ("utc_offset", _is_offset, "an offset such as +02:00"),
    ("actor", _is_actor, "an object with a kind and a name"),
    ("session", lambda value: value is None or _is_number(value), "a number or null"),
    ("event_id", _is_name, "a text"),
    ("command_id", _is_name, "a text"),
    ("causation_id", _is_text_or_nothing, "a string or null"),
    ("correlation_id", _is_text_or_nothing, "a string or null"),
    ("schema_version", lambda value: _is_number(value) and value > 0, "a number of at least 1"),
)


def find_envelope_fault(body: dict[str, Any]) -> str | None:
    """Return a description of the first invalid field of an envelope (an event's JSON object).

    Return None if the envelope is valid.
    """
    try:
        if _is_envelope_valid_by_fast_check(body):
            return None
    except (KeyError, TypeError, AttributeError):
        pass  # the checks below find the fault
    for name, is_one, expected in _PARTS:
        value = body.get(name)
        if not is_one(value):
            return f"{name}: expected {expected}, found {value!r:.80}"
    return None


def _is_envelope_valid_by_fast_check(body: dict[str, Any]) -> bool:
    """Return whether all fields of the envelope are valid, checked in a fast way.

    The check runs for every event that is read. It rejects some unusual valid envelopes, which then
    need the slower check of each field.
    """
    actor, session = body["actor"], body["session"]
    cause, conversation = body["causation_id"], body["correlation_id"]
    names: str = body["event_id"] + body["command_id"] + actor["kind"] + actor["name"]
    return (
        body["data"].__class__ is dict
        and body["schema_version"].__class__ is int
        and 0 < body["schema_version"] <= _MAX_NUMBER
        and (session is None or (session.__class__ is int and 0 <= session <= _MAX_NUMBER))
        and (cause is None or (cause.isprintable() and len(cause) <= _MAX_TEXT))
        and (
            conversation is None or (conversation.isprintable() and len(conversation) <= _MAX_TEXT)
        )
        and names.isprintable()
        and len(names) <= _MAX_TEXT
        and _is_time(body["occurred_at"])
        and _is_time(body["recorded_at"])
        and _is_known_offset(body["utc_offset"])
    )


def build_ignored_envelope(body: dict[str, Any], why: str) -> dict[str, Any]:
    """Return the envelope of the event that replaces an ignored event.

    The replacement contains the reason `why` the event is ignored.
    """
    actor = body.get("actor")
    times = [t for t in (body.get("recorded_at"), body.get("occurred_at")) if _is_moment(t)]
    recorded = times[0] if times else _NO_TIME
    return {
        "actor": actor if _is_actor(actor) else {"kind": "unknown", "name": "unknown"},
        "causation_id": None,
        "command_id": str(body.get("command_id"))[:_MAX_TEXT].replace("\0", " "),
        "correlation_id": None,
        "data": {"type": str(body["type"])[:200], "why": why[:500]},
        "event_id": body["event_id"],
        "occurred_at": times[-1] if times else recorded,
        "prev_hash": body["prev_hash"],
        "recorded_at": recorded,
        "schema_version": 1,
        "session": None,
        "stream": body["stream"],
        "type": SET_ASIDE,
        "utc_offset": body["utc_offset"] if _is_offset(body.get("utc_offset")) else "+00:00",
        "version": body["version"],
    }


class Actor(NamedTuple):
    """The person or program that caused an event.

    `kind` is user, agent, reconciler, runner or import.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class NewEvent(NamedTuple):
    """An event to append. `occurred_at` is UTC: `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""

    event_id: str
    type: str
    schema_version: int
    data: dict[str, Any]
    actor: Actor
    session: int | None
    causation_id: str | None
    correlation_id: str | None
    occurred_at: str


def _envelope_property(name: str) -> Any:
    """Return a property that reads the field `name` of the event's envelope."""
    return property(lambda event: event.body[name])


class RecordedEvent:
    """An event of the log, with its data converted to the current schema version.

    `body` is the decoded envelope without `hash` and `position`; treat it as read-only.
    `EventStore.raw` yields the exact bytes that were hashed.
    """

    __slots__ = ("body", "hash", "position")

    def __init__(self, position: int, hash_: str, body: dict[str, Any]) -> None:
        self.position = position
        self.hash = hash_
        self.body = body

    def build_ignored_event(self, why: str) -> RecordedEvent:
        """Return a replacement for this event, which readers ignore for the reason `why`."""
        return RecordedEvent(self.position, self.hash, build_ignored_envelope(self.body, why))

    #: Name of the stream.
    stream: str = _envelope_property("stream")
    #: Position of the event in its stream: 1, 2, … without a gap.
    version: int = _envelope_property("version")
    #: Identity of the event, unique in the database.
    event_id: str = _envelope_property("event_id")
    #: Stable name such as `stage.completed`.
    type: str = _envelope_property("type")
    #: Schema version of `data` after the conversion.
    schema_version: int = _envelope_property("schema_version")
    #: Data of the event, in its current schema version.
    data: dict[str, Any] = _envelope_property("data")
    #: Number of the session of the event.
    session: int | None = _envelope_property("session")
    #: Id of the command that appended the event. A command that is repeated with the same id
    #: records nothing.
    command_id: str = _envelope_property("command_id")
    #: Identity of the event or command that caused it.
    causation_id: str | None = _envelope_property("causation_id")
    #: Identity that related events share.
    correlation_id: str | None = _envelope_property("correlation_id")
    #: Time of the event in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    occurred_at: str = _envelope_property("occurred_at")
    #: Time of recording in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    recorded_at: str = _envelope_property("recorded_at")
    #: The writer's UTC offset at `recorded_at`, such as `+02:00`.
    utc_offset: str = _envelope_property("utc_offset")
    #: Hash of the previous event of the stream, or 64 zeros for version 1.
    prev_hash: str = _envelope_property("prev_hash")

    @property
    def actor(self) -> Actor:
        """The actor who caused the event."""
        actor = self.body["actor"]
        return Actor(actor["kind"], actor["name"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordedEvent):
            return NotImplemented
        return (self.position, self.hash) == (other.position, other.hash)

    def __hash__(self) -> int:
        return hash((self.position, self.hash))

    def __repr__(self) -> str:
        return f"RecordedEvent({self.stream}@{self.version} {self.type} #{self.position})"


#: A point in time: the UTC time as `YYYY-MM-DDTHH:MM:SS.ffffffZ`, and the writer's UTC offset as
#: `+HH:MM`. Both are strings, because formatting a `datetime` takes 5 % of the time of an append.
Instant = tuple[str, str]

#: Function that returns the current time, for a store that records events.
Clock = Callable[[], Instant]


def format_instant(moment: datetime) -> Instant:
    """Return a time-zone-aware `datetime` as the two strings of an `Instant`."""
    # `strftime` omits leading zeros of early years. The result would then be sorted after all other
    # times.
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='microseconds')}Z", _format_offset(
        moment.utcoffset() or timedelta()
    )


@cache
def _format_offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    hours, minutes = divmod(abs(minutes), 60)
    return f"{'-' if offset < timedelta() else '+'}{hours:02}:{minutes:02}"


def build_clock(clock: Callable[[], datetime]) -> Clock:
    """Return a clock for a store, given a function that returns time-zone-aware local times."""
    return lambda: format_instant(clock())


# Id of the newest database migration. With this constant, opening a database needs one SELECT and
# does not import Alembic.
HEAD = "0004"
# The letters "wfct" in ASCII. This application id marks a SQLite file as a database of wfctl.
APPLICATION_ID = 0x77666374
#: SQL of the triggers that the migrations create in a SQLite file. If the only event of a command
#: has the command's id, the event's row also serves as the record of the command, which saves a
#: database page per append. The last trigger prevents a second record of such a command in the
#: commands table.
TRIGGERS = (
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
        for table in ("events", "commands", "refusals")
        for verb in ("update", "delete")
    ),
    (
        "CREATE TRIGGER commands_claimed_once BEFORE INSERT ON commands BEGIN "
        "SELECT RAISE(ABORT, 'the command is claimed by its event') WHERE EXISTS ( "
        "SELECT 1 FROM events WHERE event_id = NEW.command_id AND command_digest IS NOT NULL); "
        "END"
    ),
)
# Comment on the events table. It marks a PostgreSQL database as a database of wfctl.
MARK = "wfctl event log"
