"""The versions of event schemas, and the conversion of stored events to the current version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from eventstore.errors import (
    NOT_KNOWN,
    TO_DO,
    DamagedEvent,
    MissingUpcaster,
    NewerEventSchema,
    OlderEventSchema,
    SchemaError,
    UnknownStoredType,
)
from eventstore.event import NewEvent, RecordedEvent, build_ignored_envelope, find_envelope_fault

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
Misfit = Callable[[str, dict[str, Any]], str | None]
Unknown = Callable[[SchemaError], None]


def _accept_all(type_: str, data: dict[str, Any]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Schema:
    """The event types of a program.

    `versions` gives the current schema version of each type. `upcasters` has a function for each
    pair of type and schema version; it converts an event's `data` to the next version. `misfit`
    returns the reason why data is invalid for its type, or None if the data is valid. `unknown` is
    called with the error for each unknown event, and the event is then ignored. Without `unknown`,
    an unknown event raises an error.
    """

    versions: Mapping[str, int]
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)
    misfit: Misfit = _accept_all
    unknown: Unknown | None = None

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """Parse the stored text of an event, convert its data to the current schema, and return it.

        The text is trusted: only JSON, type and schema version are checked. Raises SchemaError or
        DamagedEvent.
        """
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.versions.get(body["type"]) != body["schema_version"]:
                self._upcast(body)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEvent(position, str(error)) from error
        return RecordedEvent(position, hash_, body)

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """Return the recorded event for a parsed envelope, in the current schema version.

        If the envelope is not a valid event, return an ignored event that replaces it. Raises
        SchemaError or DamagedEvent.
        """
        try:
            why = (
                find_envelope_fault(body)
                or self._try_upcast(body)
                or self.misfit(body["type"], body["data"])
            )
            return RecordedEvent(
                position, hash_, body if why is None else build_ignored_envelope(body, why)
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedEvent(position, str(error)) from error

    def _try_upcast(self, body: dict[str, Any]) -> str | None:
        """Convert the event's data to the current schema version.

        Return the reason if the conversion fails, otherwise None.
        """
        if self.versions.get(body["type"]) == body["schema_version"]:
            return None
        try:
            self._upcast(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return (
                f"the data cannot be converted to the current schema ({type(error).__name__}: "
                f"{error})"
            )
        except SchemaError as error:
            if self.unknown is None:
                raise
            self.unknown(error)
            return f"{NOT_KNOWN} {body['type']!r:.80}; {TO_DO}"
        return None

    def _upcast(self, body: dict[str, Any]) -> None:
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

    def require_readable_event(self, event: NewEvent) -> None:
        """Raise a SchemaError if this program could not read the new event after recording it."""
        if self.versions.get(event.type) == event.schema_version:
            return
        place = f"new event {event.event_id}"
        known = self._known(event.type, event.schema_version, place)
        raise OlderEventSchema(event.type, event.schema_version, known, place)
