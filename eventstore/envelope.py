"""What is around an event's data, and what becomes of an event that cannot be one.

An event in its place of the chain can still be nonsense: whoever writes rows can write a list as an
id, a time that is none, or data that its type does not have. Such an event is set aside as it is
read. In its place stands one of the type `event.set_aside`, with the same version and hash, that
says what it was and why it counts for nothing.
"""

import re
from datetime import datetime
from functools import lru_cache
from typing import Any

#: The type under which an event is read that is set aside. Nobody records it.
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


# An event was mostly so when it was recorded, and so were all of its command.
@lru_cache(maxsize=64)
def _is_time(value: str) -> bool:
    """Whether it is a time in the log's form; those at the ends cannot be shown in every zone."""
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


def _is_session(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value <= _MAX_NUMBER)


def _is_schema_version(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MAX_NUMBER


def _is_object(value: Any) -> bool:
    return type(value) is dict


_PARTS = (
    ("data", _is_object, "an object"),
    ("occurred_at", _is_moment, "a UTC time such as 2026-03-31T10:00:00.000000Z"),
    ("recorded_at", _is_moment, "a UTC time such as 2026-03-31T10:00:00.000000Z"),
    ("utc_offset", _is_offset, "an offset such as +02:00"),
    ("actor", _is_actor, "an object with a kind and a name"),
    ("session", _is_session, "a number or null"),
    ("event_id", _is_name, "a text"),
    ("command_id", _is_name, "a text"),
    ("causation_id", _is_text_or_nothing, "a text or null"),
    ("correlation_id", _is_text_or_nothing, "a text or null"),
    ("schema_version", _is_schema_version, "a number from 1 on"),
)


def fault(body: dict[str, Any]) -> str | None:
    """What of an envelope is not as it must be, None where all is."""
    try:
        if _is_usual(body):
            return None
    except (KeyError, TypeError, AttributeError):
        pass  # what of it, is looked for one by one
    for name, is_one, expected in _PARTS:
        value = body.get(name)
        if not is_one(value):
            return f"{name}: expected {expected}, found {value!r:.80}"
    return None


def _is_usual(body: dict[str, Any]) -> bool:
    """Whether all is as it mostly is. In one piece, as it is asked of every event that is read."""
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
    """The envelope of what is read in the place of an event that counts for nothing."""
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
