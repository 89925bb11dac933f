"""From stored rows to events: none counts whose hash, link and place are not those of its bytes.

A row is what somebody wrote into a table. Before anything is made of it, its text is hashed and
compared with what the row, the row before it and its columns say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from eventstore.chain import Link
from eventstore.codec import Schema, digest
from eventstore.errors import UnsoundLog
from eventstore.event import RecordedEvent

Stored = tuple[Any, ...]
"""Every column of a row, in the order of `verification.Row`."""

#: What a text may fail with that is no envelope: no JSON, no object, no field, not even a text.
_NO_ENVELOPE = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Reader:
    """How rows become events: checked, or ``as_is`` for somebody who only looks."""

    schema: Schema
    as_is: bool = False

    def events(self, rows: Iterable[Stored], stream: str, after: Link) -> Iterator[RecordedEvent]:
        """The events of a stream's rows, which follow the link `after` in order of version.

        Raises UnsoundLog at the first row that is not in its place, SchemaError.
        """
        version, previous = after
        for row in rows:
            version += 1
            body = self._body(row, stream, version, previous)
            if self.as_is:
                # What a row says of its place is nothing to judge an approval by.
                body["prev_hash"], previous = previous, _hash_of(row)
            else:
                previous = row[6]
            yield self.schema.event(row[0], previous, body)

    def all_events(
        self, rows: Iterable[Stored], link: Callable[[str, int], Link]
    ) -> Iterator[RecordedEvent]:
        """The events of rows of all streams; `link` looks up that of a stream's version.

        Raises as `events`.
        """
        heads: dict[str, Link] = {}
        for row in rows:
            stream, version = row[1], row[2]
            before = heads.get(stream) or link(stream, version - 1)
            (event,) = self.events((row,), stream, before)
            heads[stream] = Link(version, event.hash)
            yield event

    def _body(self, row: Stored, stream: str, version: int, previous: str) -> dict[str, Any]:
        _, named, number, event_id, type_, recorded_at, hash_, text = row
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.as_is or (
                digest(text.encode("utf-8", "surrogateescape")) == hash_
                and body["prev_hash"] == previous
                and body["version"] == number == version
                and body["stream"] == named == stream
                and body["type"] == type_
                and body["event_id"] == event_id
                and body["recorded_at"] == recorded_at
                and body["version"].__class__ is int
            ):
                return body
        except _NO_ENVELOPE:
            pass
        raise _unsound(row, stream, version, previous)

    def link(self, rows: Iterable[Stored], stream: str, version: int) -> Link:
        """The link that the version before a reading makes, from its own row.

        That row is held to its bytes and its place; what came before it is not looked at.
        Without one, a link that nothing follows.
        """
        for row in rows:
            if not self.as_is:
                self._body(row, stream, version, _said_before(row))
            return Link(version, row[6])
        return Link(version, "")


def is_head(row: tuple[Any, ...]) -> bool:
    """Whether the columns version, position and hash of a stream's last row can be that."""
    return all(map(isinstance, row, (int, int, str)))


def no_head(stream: str, events: Iterable[RecordedEvent]) -> UnsoundLog:
    """The error for a stream whose last row is no head; `events` are those that can be read."""
    last = 0
    for event in events:
        last = event.version
    return UnsoundLog(stream, last + 1, "malformed", "the columns of its row are of other types")


def _hash_of(row: Stored) -> str:
    return digest(str(row[7]).encode("utf-8", "surrogateescape"))


def _said_before(row: Stored) -> str:
    try:
        return str(orjson.loads(row[7])["prev_hash"])
    except _NO_ENVELOPE:
        return ""


def _unsound(found: Iterable[Any], stream: str, version: int, previous: str) -> UnsoundLog:
    from eventstore.verification import StoredRow, displaced  # a sound log does not pay for it

    row = StoredRow(*found)
    strange = f"expected an event of {stream}, found one of {row.stream!r:.80}"
    wrong = ((one.kind, one.message) for one in displaced(row, stream, Link(version - 1, previous)))
    return UnsoundLog(stream, version, *next(wrong, ("misfiled", strange)))
