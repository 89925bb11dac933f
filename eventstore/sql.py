"""What the logs in SQL databases have in common: how they are read, checked and answered from.

A command that reads loads nothing here of checking and of moving a log.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from eventstore.chain import START, Link, Schema, canonical, digest
from eventstore.errors import StoreDamaged, StoreUnreachable, UnsoundLog
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.store import (
    Appended,
    Claim,
    Claimed,
    Command,
    Head,
    Raw,
    Refusal,
    StoredFold,
    require_name,
    require_same,
)

if TYPE_CHECKING:
    from eventstore.verification import CommandSpan, Finding, StoredRow


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
    #: latter are null if there is no claim, and an empty log gives no row.
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


_Key = TypeVar("_Key", int, str)

# Rows fetched at a time: each fetch is one short read, so a slow reader never holds up a writer
# or keeps the log from being folded into the file.
_CHUNK = 1000


class SqlStore:
    """An EventStore in a SQL database; how it appends, waits and is reached is for its engine."""

    def __init__(
        self, place: Path | str, sql: Statements, schema: Schema, clock: Clock, as_is: bool
    ) -> None:
        self._place = place
        self._sql = sql
        self._schema = schema
        self._clock = clock
        self._events = Reader(schema, as_is)
        self._closed = False

    @abstractmethod
    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """The rows of a statement that reads. Raises StoreClosed."""

    def _fetch_rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """As `_fetch`; a text that is no UTF-8 comes as it was found, for its hash to be judged."""
        try:
            return self._fetch(statement, parameters)
        except StoreDamaged:
            return self._fetch_damaged(statement, parameters)

    def _fetch_damaged(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        return self._fetch(statement, parameters)

    @abstractmethod
    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Carry out statements in one transaction. Raises StoreClosed."""

    @abstractmethod
    def _foreign_rules(self) -> Iterable[str]:
        """What would act on rows of the log and was not created by wfctl."""

    def _engine_findings(self) -> Iterable[str]:
        """What the engine finds wrong with its own database."""
        return ()

    def _require_new(self, stream: str, events: Sequence[NewEvent]) -> None:
        require_name(stream)
        for event in events:
            self._schema.check_new(event)

    def _answer(self, known: Command) -> Appended:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return Appended(tuple(found), True)

    def _known(self, command_id: str) -> Command | None:
        rows = self._fetch(self._sql.command, (command_id,))
        return Command(*rows[0]) if rows else None

    def claimed(self, claim: Claim) -> Appended | None:
        """See EventStore."""
        known = self._known(claim.command_id)
        if known is None:
            return None
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """See EventStore."""
        known = self._known(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """See EventStore."""
        link = after if isinstance(after, Link) else self._link(stream, after)
        rows = self._stored(stream, link.version, sys.maxsize if upto is None else upto)
        yield from self._events.events(rows, stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        before = self._fetch_rows(self._sql.read, (stream, version - 1, version, 1))
        return self._events.link(before, stream, version)

    def _stored(self, stream: str, after: int, upto: int) -> Iterator[Any]:
        """The rows of a stream, with every column, in order of version."""
        while rows := self._fetch_rows(self._sql.read, (stream, after, upto, _CHUNK)):
            yield from rows
            after = self._onward(after, rows[-1][2])

    def _onward(self, before: _Key, after: _Key) -> _Key:
        """Where the next fetch begins: a damaged index may lead backwards, and so for ever."""
        if type(after) is not type(before) or after <= before:
            raise StoreDamaged(self._place, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0, limit: int | None = None) -> Iterator[RecordedEvent]:
        """See EventStore."""
        return self._events.all_events(self._all_stored(after, limit), self._link)

    def _all_stored(self, after: int, limit: int | None) -> Iterator[Any]:
        left = sys.maxsize if limit is None else limit
        while rows := self._fetch_rows(self._sql.read_all, (after, min(_CHUNK, left))):
            yield from rows
            after = self._onward(after, rows[-1][0])
            left -= len(rows)

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """See EventStore."""
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._stored(stream, after, end):
            yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """See EventStore."""
        from eventstore.intake import all_raw

        return all_raw(self._fetch, self._sql)

    def commands(self) -> Iterator[Claimed]:
        """See EventStore. A row that holds other things than a claim was written past us."""
        from eventstore.intake import CLAIM

        after = ""
        while rows := self._fetch(self._sql.commands, (after, _CHUNK)):
            yield from (Claimed(*row) for row in rows if all(map(isinstance, row, CLAIM)))
            after = rows[-1][0]

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Every column of a stream's rows, in order of version; damaged text is kept as found."""
        from eventstore.verification import StoredRow

        after = 0
        while found := self._fetch_damaged(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._onward(after, found[-1][2])

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """What each of these commands recorded."""
        from eventstore.verification import CommandSpan

        rows = self._fetch_damaged(self._sql.spans, (self._as_one(command_ids),))
        return {id_: CommandSpan(*span) for id_, *span in rows}

    def _as_one(self, values: Sequence[str]) -> Any:
        """Several values as one parameter."""
        return list(values)

    def head(self, stream: str) -> Head | None:
        """See EventStore."""
        rows = self._fetch(self._sql.head, (stream,))
        if rows and not is_head(rows[0]):
            raise no_head(stream, self.read(stream))
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """See EventStore."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = self._onward(name, rows[0][0])
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """See EventStore; the database itself is looked at too."""
        from eventstore.verification import Finding, findings

        try:
            for message in self._engine_findings() if stream is None else ():
                yield Finding(None, None, None, "engine", message)
            for rule in self._foreign_rules():
                message = f"expected the triggers and tables that wfctl made, found {rule}"
                yield Finding(stream, None, None, "foreign_rule", message)
            yield from findings(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def strays(self) -> Iterator[Finding]:
        """See EventStore."""
        from eventstore.strays import strays

        return strays(self._fetch_rows, self._sql)

    def save_fold(self, fold: StoredFold) -> None:
        """See EventStore."""
        old = (self._sql.delete_fold, (fold.stream, fold.reducer))
        self._write(old, (self._sql.insert_fold, fold))

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """See EventStore."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """See EventStore."""
        data = canonical(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        from eventstore.intake import all_refusals

        return all_refusals(self._fetch_rows, self._sql, stream)

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """See EventStore."""
