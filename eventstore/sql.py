"""What the logs in SQL databases have in common: the statements, and how rows become events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from eventstore.chain import Link, Schema, digest
from eventstore.errors import UnsoundLog
from eventstore.event import RecordedEvent

#: The columns of an event, of a claim and of a fold.
EVENT = "position, stream, version, event_id, type, recorded_at, hash, body"
CLAIMED = "command_id, stream, digest, first_version, last_version"
FOLD = "stream, reducer, reducer_version, version, state"
#: Those of a refusal, after its number.
REFUSAL = "at, stream, actor, command, code, message, data"

_LAST_OF_STREAM = "FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"


def _inserted(table: str, columns: str) -> str:
    marks = ", ".join("?" for _ in columns.split(", "))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


class Statements:
    """The texts with the parameters of SQLite; each engine has its own for the last three."""

    #: stream -> version, position, hash.
    head = f"SELECT version, position, hash {_LAST_OF_STREAM}"
    #: stream -> position and hash of the log's last event, version and hash of the stream's: the
    #: latter are null if the stream has none, and an empty log gives no row.
    tip = f"""
SELECT last.position, last.hash, own.version, own.hash
FROM (SELECT position, hash FROM events ORDER BY position DESC LIMIT 1) AS last
LEFT OUTER JOIN (SELECT version, hash {_LAST_OF_STREAM}) AS own ON 1 = 1"""
    #: Nothing -> number of events, last position (null in an empty log).
    extent = "SELECT count(*), max(position) FROM events"
    #: Nothing -> last position, 0 in an empty log.
    last = "SELECT coalesce(max(position), 0) FROM events"
    insert_event = _inserted("events", EVENT)
    insert_command = _inserted("commands", CLAIMED)
    #: stream, after, upto, limit -> every column of events.
    read = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? AND version <= ?
ORDER BY version LIMIT ?"""
    #: after, limit -> every column of events.
    read_all = f"SELECT {EVENT} FROM events WHERE position > ? ORDER BY position LIMIT ?"
    #: stream, after, limit -> every column of events.
    rows = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? ORDER BY version LIMIT ?"""
    #: name -> the next name in order: one step in the index, however long the streams are.
    next_stream = "SELECT stream FROM events WHERE stream > ? ORDER BY stream LIMIT 1"
    #: stream, reducer.
    delete_fold = "DELETE FROM folds WHERE stream = ? AND reducer = ?"
    insert_fold = _inserted("folds", FOLD)
    #: stream, reducer, reducer version -> every column of folds.
    fold = f"""
SELECT {FOLD} FROM folds WHERE stream = ? AND reducer = ? AND reducer_version = ?"""
    insert_refusal = _inserted("refusals", REFUSAL)
    #: command id, limit -> every column of the commands after it, and the texts of the first and of
    #: the last event that it claims, null if it claims nothing.
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
                text = str(row[7]).encode("utf-8", "surrogateescape")
                body["prev_hash"], previous = previous, digest(text)
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
                try:
                    said = str(orjson.loads(row[7])["prev_hash"])
                except _NO_ENVELOPE:
                    said = ""
                self._body(row, stream, version, said)
            return Link(version, row[6])
        return Link(version, "")


def _unsound(found: Iterable[Any], stream: str, version: int, previous: str) -> UnsoundLog:
    from eventstore.verification import StoredRow, displaced  # a sound log does not pay for it

    row = StoredRow(*found)
    strange = f"expected an event of {stream}, found one of {row.stream!r:.80}"
    wrong = ((one.kind, one.message) for one in displaced(row, stream, Link(version - 1, previous)))
    return UnsoundLog(stream, version, *next(wrong, ("misfiled", strange)))
