"""Between an envelope and the text that is stored and hashed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from eventstore.errors import (
    NOT_KNOWN,
    TO_DO,
    DamagedEvent,
    InvalidData,
    MissingUpcaster,
    NewerEventSchema,
    OlderEventSchema,
    SchemaError,
    UnknownStoredType,
)
from eventstore.event import NewEvent, RecordedEvent, fault, set_aside

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
Misfit = Callable[[str, dict[str, Any]], str | None]
Unknown = Callable[[SchemaError], None]

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


_SHA256 = sha256()
_LISTS = (list, tuple)
_HARMLESS = frozenset({str, int, bool, type(None)})


def canonical(value: Any, where: str = "value") -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8. Raises InvalidData naming `where`."""
    text = encoded(value, where)
    # The encoder writes NaN and infinity as null, so only a null can hide one.
    if b"null" in text:
        require_finite(value, where)
    return text


def encoded(value: Any, where: str) -> bytes:
    """As `canonical`, for numbers known to be finite."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise InvalidData(where, str(error)) from error


def require_finite(value: Any, where: str) -> None:
    """Raises InvalidData naming `where` if there is a number in it that JSON cannot say."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidData(where, "a number that is not finite")
    elif not isinstance(value, _LISTS):
        return
    # Most values are flat and hold texts and null: one look at their types is enough.
    if not _HARMLESS.issuperset(map(type, value)):
        for part in value:
            require_finite(part, where)


def digest(text: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    # A copy, as to look the algorithm up takes a third of the time.
    found = _SHA256.copy()
    found.update(text)
    return found.hexdigest()


def _fits(type_: str, data: dict[str, Any]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Schema:
    """The event types of a program.

    `versions` gives the current schema version of each type; `upcasters` lifts `data` of
    (type, version) to version + 1; `misfit` says why the data of a type cannot be it, None where it
    can. `unknown` is told of an event that the program does not know, which is set aside then;
    without it, such an event ends the reading.
    """

    versions: Mapping[str, int]
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)
    misfit: Misfit = _fits
    unknown: Unknown | None = None

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """The recorded event of a text of ours, lifted. Raises SchemaError, DamagedEvent."""
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.versions.get(body["type"]) != body["schema_version"]:
                self._lift(body)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEvent(position, str(error)) from error
        return RecordedEvent(position, hash_, body)

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """The recorded event of a stored envelope, lifted; set aside where it cannot be one.

        Raises SchemaError, DamagedEvent.
        """
        try:
            why = fault(body) or self._lifted(body) or self.misfit(body["type"], body["data"])
            return RecordedEvent(position, hash_, body if why is None else set_aside(body, why))
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedEvent(position, str(error)) from error

    def _lifted(self, body: dict[str, Any]) -> str | None:
        """Lift the data; why that cannot be done with what it holds."""
        if self.versions.get(body["type"]) == body["schema_version"]:
            return None
        try:
            self._lift(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return f"its data cannot be lifted ({type(error).__name__}: {error})"
        except SchemaError as error:
            if self.unknown is None:
                raise
            self.unknown(error)
            return f"{NOT_KNOWN} {body['type']!r:.80}; {TO_DO}"
        return None

    def _lift(self, body: dict[str, Any]) -> None:
        type_, found = body["type"], body["schema_version"]
        place = f"{body['stream']} version {body['version']}"
        known = self._known(type_, found, place)
        for step in range(found, known):
            upcaster = self.upcasters.get((type_, step))
            if upcaster is None:
                raise MissingUpcaster(type_, step, known, place)
            body["data"] = upcaster(body["data"])
        body["schema_version"] = known

    def _known(self, type_: str, found: int, place: str) -> int:
        known = self.versions.get(type_)
        if known is None:
            raise UnknownStoredType(type_, found, 0, place)
        if found > known:
            raise NewerEventSchema(type_, found, known, place)
        return known

    def check_new(self, event: NewEvent) -> None:
        """Refuse to write what could not be read again. Raises a SchemaError."""
        if self.versions.get(event.type) == event.schema_version:
            return
        place = f"new event {event.event_id}"
        known = self._known(event.type, event.schema_version, place)
        raise OlderEventSchema(event.type, event.schema_version, known, place)
