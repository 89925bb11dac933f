"""The SQL statements and the conversion of rows to events that all SQL databases share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from eventstore.chain import Link, Schema, sha256_hex
from eventstore.errors import UnsoundLog
from eventstore.event import RecordedEvent

#: Columns of an event, of a claim and of a fold.
EVENT = "position, stream, version, event_id, type, recorded_at, hash, body"
CLAIMED = "command_id, stream, digest, first_version, last_version"
FOLD = "stream, reducer, reducer_version, version, state"
#: Columns of a refusal after its number.
REFUSAL = "at, stream, actor, command, code, message, data"

_LAST_OF_STREAM = "FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"


def _build_insert(table: str, columns: str) -> str:
    marks = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


class Statements:
    """The SQL statements with SQLite parameters.

    Each engine defines its own last three statements.
    """

    #: stream -> version, position, hash.
    head = f"SELECT version, position, hash {_LAST_OF_STREAM}"
    #: stream -> position and hash of the log, version and hash of the stream (null without events).
    tip = f"""
SELECT last.position, last.hash, own.version, own.hash
FROM (SELECT position, hash FROM events ORDER BY position DESC LIMIT 1) AS last
LEFT OUTER JOIN (SELECT version, hash {_LAST_OF_STREAM}) AS own ON 1 = 1"""
    #: Nothing -> number of events, last position (null in an empty log).
    extent = "SELECT count(*), max(position) FROM events"
    #: Nothing -> last position, 0 in an empty log.
    last = "SELECT coalesce(max(position), 0) FROM events"
    insert_event = _build_insert("events", EVENT)
    insert_command = _build_insert("commands", CLAIMED)
    #: stream, after, upto, limit -> every column of events.
    read = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? AND version <= ?
ORDER BY version LIMIT ?"""
    #: after, limit -> every column of events.
    read_all = f"SELECT {EVENT} FROM events WHERE position > ? ORDER BY position LIMIT ?"
    #: stream, after, limit -> every column of events.
    rows = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? ORDER BY version LIMIT ?"""
    #: name -> the next name in order, found with one step in the index.
    next_stream = "SELECT stream FROM events WHERE stream > ? ORDER BY stream LIMIT 1"
    #: stream, reducer.
    delete_fold = "DELETE FROM folds WHERE stream = ? AND reducer = ?"
    insert_fold = _build_insert("folds", FOLD)
    #: stream, reducer, reducer version -> every column of folds.
    fold = f"""
SELECT {FOLD} FROM folds WHERE stream = ? AND reducer = ? AND reducer_version = ?"""
    insert_refusal = _build_insert("refusals", REFUSAL)
    #: command id, limit -> columns of the following commands.
    #: The last columns are the texts of each command's first and last event, or null.
    claims = """
SELECT c.command_id, c.stream, c.digest, c.first_version, c.last_version, first.body, last.body
FROM commands AS c
LEFT OUTER JOIN events AS first ON first.stream = c.stream AND first.version = c.first_version
LEFT OUTER JOIN events AS last ON last.stream = c.stream AND last.version = c.last_version
WHERE c.command_id > ? ORDER BY c.command_id LIMIT ?"""
    #: after, limit -> number and every column of refusals.
    refusals = f"SELECT id, {REFUSAL} FROM refusals WHERE id > ? ORDER BY id LIMIT ?"
    #: command id -> stream, digest, first version, last version.
    command: str
    #: command ids, in one parameter -> command id, stream, first version, last version of each.
    spans: str
    #: command id, limit -> every column of the claims after it.
    commands: str


Stored = tuple[Any, ...]
"""Every column of a row, in the order of `verification.Row`."""

#: Errors that a text may cause that is not an envelope: no JSON, no object, or a missing field.
_NO_ENVELOPE = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader that turns rows into events: checked, or unchecked with ``as_is``."""

    schema: Schema
    as_is: bool = False

    def events(self, rows: Iterable[Stored], stream: str, after: Link) -> Iterator[RecordedEvent]:
        """Yield the events of a stream's rows, which follow the link `after` in order of version.

        Raises UnsoundLog at the first row that is not in its place, and SchemaError.
        """
        version, previous = after
        for row in rows:
            version += 1
            body = self._decode_checked_body(row, stream, version, previous)
            if self.as_is:
                # The columns of a row are not used to judge an approval, only the text is.
                text = str(row[7]).encode("utf-8", "surrogateescape")
                body["prev_hash"], previous = previous, sha256_hex(text)
            else:
                previous = row[6]
            yield self.schema.event(row[0], previous, body)

    def all_events(
        self, rows: Iterable[Stored], link: Callable[[str, int], Link]
    ) -> Iterator[RecordedEvent]:
        """Yield the events of rows of all streams. `link` finds the link of a stream's version.

        Raises the errors of `events`.
        """
        heads: dict[str, Link] = {}
        for row in rows:
            stream, version = row[1], row[2]
            before = heads.get(stream) or link(stream, version - 1)
            (event,) = self.events((row,), stream, before)
            heads[stream] = Link(version, event.hash)
            yield event

    def _decode_checked_body(
        self, row: Stored, stream: str, version: int, previous: str
    ) -> dict[str, Any]:
        _, named, number, event_id, type_, recorded_at, hash_, text = row
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.as_is or (
                sha256_hex(text.encode("utf-8", "surrogateescape")) == hash_
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
        raise _build_unsound_error(row, stream, version, previous)

    def link(self, rows: Iterable[Stored], stream: str, version: int) -> Link:
        """Return the link before the first version that is read, from that link's own row.

        Check the bytes and the place of this row only, not of earlier rows. Without a row, return a
        link that no event follows.
        """
        for row in rows:
            if not self.as_is:
                try:
                    said = str(orjson.loads(row[7])["prev_hash"])
                except _NO_ENVELOPE:
                    said = ""
                self._decode_checked_body(row, stream, version, said)
            return Link(version, row[6])
        return Link(version, "")


def _build_unsound_error(
    found: Iterable[Any], stream: str, version: int, previous: str
) -> UnsoundLog:
    from eventstore.verification import (  # imported only for a damaged log
        StoredRow,
        find_row_faults,
    )

    row = StoredRow(*found)
    strange = f"expected an event of {stream}, found an event of {row.stream!r:.80}"
    wrong = (
        (one.kind, one.message) for one in find_row_faults(row, stream, Link(version - 1, previous))
    )
    return UnsoundLog(stream, version, *next(wrong, ("misfiled", strange)))
