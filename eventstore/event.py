"""An event before and after it is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

#: Type with which an ignored event is read. No program records this type.
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


# The times of an event are usually equal, and equal for all events of a command.
@lru_cache(maxsize=64)
def _is_time(value: str) -> bool:
    """Return whether the value is a time in the log's format and valid in every time zone."""
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
    """Return the first fault of an envelope, or None if the envelope is valid."""
    try:
        if _is_usual(body):
            return None
    except (KeyError, TypeError, AttributeError):
        pass  # the checks below find the fault
    for name, is_one, expected in _PARTS:
        value = body.get(name)
        if not is_one(value):
            return f"{name}: expected {expected}, found {value!r:.80}"
    return None


def _is_usual(body: dict[str, Any]) -> bool:
    """Return whether the envelope has the usual form. This fast check runs for every event read."""
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


def set_aside(body: dict[str, Any], why: str) -> dict[str, Any]:
    """Return the envelope that replaces an ignored event."""
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
    """Who caused an event. `kind` is user, agent, reconciler, runner or import."""

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
    """Return a property that reads a part of the event's envelope."""
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

    def aside(self, why: str) -> RecordedEvent:
        """Return the event that replaces this event when this event is ignored."""
        return RecordedEvent(self.position, self.hash, set_aside(self.body, why))

    #: Name of the stream.
    stream: str = _envelope_property("stream")
    #: Position in its stream: 1, 2, … without a gap.
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
    #: Idempotency key of the command that appended it.
    command_id: str = _envelope_property("command_id")
    #: Identity of the event or command that caused it.
    causation_id: str | None = _envelope_property("causation_id")
    #: Identity that related events share.
    correlation_id: str | None = _envelope_property("correlation_id")
    #: Time of the event in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    occurred_at: str = _envelope_property("occurred_at")
    #: Time of recording in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    recorded_at: str = _envelope_property("recorded_at")
    #: The writer's local offset at `recorded_at`, such as `+02:00`.
    utc_offset: str = _envelope_property("utc_offset")
    #: Hash of the previous version, or 64 zeros for version 1.
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


#: The time in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`, and the writer's offset, `+HH:MM`.
#: Strings are used, because formatting a `datetime` takes a twentieth of an append.
Instant = tuple[str, str]

#: Function that returns the current time for a store.
Clock = Callable[[], Instant]


def format_instant(moment: datetime) -> Instant:
    """Return an aware local time in the log's format."""
    # strftime omits leading zeros of early years, and such a text would sort after all others.
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
    """Return a clock for a store, based on a clock of aware local times."""
    return lambda: format_instant(clock())


# Id of the newest migration, so that a normal open needs one SELECT and no Alembic.
HEAD = "0004"
# "wfct" in ASCII, which marks a SQLite file as a database of wfctl.
APPLICATION_ID = 0x77666374
#: Triggers that the migrations create in a SQLite file, each on one line.
#: A single event with its command's id claims the command itself, which saves a page per append.
#: The triggers prevent a second claim by a row of the commands table.
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
# Comment on the table of events that marks a PostgreSQL database as a database of wfctl.
MARK = "wfctl event log"
