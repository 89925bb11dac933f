"""The SQL statements, and the conversion of rows to events, for all SQL databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from eventstore.chain import Link, sha256_hex
from eventstore.errors import UnsoundLog
from eventstore.event import RecordedEvent
from eventstore.schema import Schema

#: Columns of a stored event.
EVENT = "position, stream, version, event_id, type, recorded_at, hash, body"
CLAIMED = "command_id, stream, digest, first_version, last_version"
FOLD = "stream, reducer, reducer_version, version, state"
#: Columns of a refusal (a command that the rules refused), without the number of its row.
REFUSAL = "at, stream, actor, command, code, message, data"

_LAST_OF_STREAM = "FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"


def _build_insert(table: str, columns: str) -> str:
    marks = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


class Statements:
    """The SQL statements of a log, with parameters in the style of SQLite.

    Each database engine defines the last three statements itself.
    """

    #: Takes a stream. Returns version, position and hash of its last event.
    head = f"SELECT version, position, hash {_LAST_OF_STREAM}"
    #: Takes a stream. Returns position and hash of the last event of the log, and version and hash
    #: of the last event of the stream. They are null if no event exists.
    tip = f"""
SELECT last.position, last.hash, own.version, own.hash
FROM (SELECT position, hash FROM events ORDER BY position DESC LIMIT 1) AS last
LEFT OUTER JOIN (SELECT version, hash {_LAST_OF_STREAM}) AS own ON 1 = 1"""
    #: Returns the number of events and the last position, which is null in an empty log.
    extent = "SELECT count(*), max(position) FROM events"
    #: Returns the last position of the log, or 0 for an empty log.
    last = "SELECT coalesce(max(position), 0) FROM events"
    insert_event = _build_insert("events", EVENT)
    insert_command = _build_insert("commands", CLAIMED)
    #: Takes stream, after, upto and limit. Returns every column of events.
    read = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? AND version <= ?
ORDER BY version LIMIT ?"""
    #: Takes after and limit. Returns every column of events.
    read_all = f"SELECT {EVENT} FROM events WHERE position > ? ORDER BY position LIMIT ?"
    #: Takes stream, after and limit. Returns every column of events.
    rows = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? ORDER BY version LIMIT ?"""
    #: Takes the name of a stream. Returns the next name in order, with a single step in the index.
    next_stream = "SELECT stream FROM events WHERE stream > ? ORDER BY stream LIMIT 1"
    #: Takes stream and reducer.
    delete_fold = "DELETE FROM folds WHERE stream = ? AND reducer = ?"
    insert_fold = _build_insert("folds", FOLD)
    #: Takes stream, reducer and reducer version. Returns every column of folds.
    fold = f"""
SELECT {FOLD} FROM folds WHERE stream = ? AND reducer = ? AND reducer_version = ?"""
    insert_refusal = _build_insert("refusals", REFUSAL)
    #: Takes a command id and a limit. Returns the columns of the commands with later ids, each with
    #: the texts of its first and last event, which may be null.
    claims = """
SELECT c.command_id, c.stream, c.digest, c.first_version, c.last_version, first.body, last.body
FROM commands AS c
LEFT OUTER JOIN events AS first ON first.stream = c.stream AND first.version = c.first_version
LEFT OUTER JOIN events AS last ON last.stream = c.stream AND last.version = c.last_version
WHERE c.command_id > ? ORDER BY c.command_id LIMIT ?"""
    #: Takes after and limit. Returns the row number and every column of refusals.
    refusals = f"SELECT id, {REFUSAL} FROM refusals WHERE id > ? ORDER BY id LIMIT ?"
    #: Takes a command id. Returns stream, digest, first version and last version.
    command: str
    #: Takes command ids in one parameter. Returns command id, stream, first version and last
    #: version of each.
    spans: str
    #: Takes a command id and a limit. Returns every column of the commands with later ids.
    commands: str


Stored = tuple[Any, ...]
"""Every column of a row, in the order of `verification.Row`."""

#: Errors raised while reading an event's text that is not JSON, not an object, or lacks a field.
_NO_ENVELOPE = (ValueError, KeyError, TypeError, AttributeError)


class Reader(NamedTuple):
    """A reader that converts database rows to events.

    It checks the hashes and columns of each row, unless ``as_is`` is set.
    """

    schema: Schema
    as_is: bool = False

    def events(self, rows: Iterable[Stored], stream: str, after: Link) -> Iterator[RecordedEvent]:
        """Yield the events of one stream from its rows, which are in order of version.

        `after` is the version and hash of the event before the first row. Raises UnsoundLog at the
        first row that does not continue the chain of hashes, and SchemaError for an unknown type or
        schema version.
        """
        version, previous = after
        for row in rows:
            version += 1
            body = self._decode_checked_body(row, stream, version, previous)
            if self.as_is:
                # Approvals of unchecked rows refer to the text of an event only. The hash is
                # therefore computed from the text, and the hash column is ignored.
                text = str(row[7]).encode("utf-8", "surrogateescape")
                body["prev_hash"], previous = previous, sha256_hex(text)
            else:
                previous = row[6]
            yield self.schema.event(row[0], previous, body)

    def all_events(
        self, rows: Iterable[Stored], link: Callable[[str, int], Link]
    ) -> Iterator[RecordedEvent]:
        """Yield the events of all streams from rows in order of position.

        `link` is called with a stream and a version, and returns the link with the hash of that
        event. Raises the errors of `events`.
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
        """Return the version and hash of the event before the first one to read.

        They come from the row of this event. Only this row is checked, not the earlier rows.
        Without such a row, return a link that no event can follow.
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
