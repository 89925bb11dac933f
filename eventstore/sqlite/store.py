"""The event log in a SQLite file.

A command that reads loads nothing here of writing, of checking and of moving a log.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from eventstore.chain import START, Link, linked, seal
from eventstore.codec import Schema, canonical
from eventstore.errors import DatabaseMissing, StoreClosed, StoreDamaged, StoreUnreachable
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.reading import Reader, is_head, no_head
from eventstore.sqlite.connection import Journal, journal_for, of_mode, reader, reading, translated
from eventstore.sqlite.queue import Tip, kind_of, tip_of
from eventstore.sqlite.writer import COMMAND, COMMANDS, SPANS, SqliteStatements, record
from eventstore.store import (
    Appended,
    Cargo,
    Claim,
    Claimed,
    Command,
    Expected,
    Head,
    Raw,
    Refusal,
    StoredFold,
    require_name,
    require_same,
    require_version,
)

if TYPE_CHECKING:
    from eventstore.sqlite.writer import Writer
    from eventstore.verification import CommandSpan, Finding, StoredRow

_Key = TypeVar("_Key", int, str)

# Rows fetched at a time: each fetch is one short read, so a slow reader never holds up a writer
# or keeps the log from being folded into the file.
_CHUNK = 1000
_WAIT = 30.0
# Between two looks of one who waits for the next event.
_LOOK_SECONDS = 0.1


def open_store(
    path: Path,
    *,
    schema: Schema,
    clock: Clock,
    read_only: bool = False,
    as_is: bool = False,
    journal: str | None = None,
    wait: float = _WAIT,
    filesystem: Callable[[Path], str] = kind_of,
) -> SqliteStore:
    """Open the database at `path`, which a migration has made.

    `clock` says when an event is recorded. `as_is`: a reader gives the rows as they stand,
    unchecked. `journal` ("wal" or "truncate") overrides the choice by file system; `wait` bounds
    the wait for other writers, in seconds.
    Raises DatabaseMissing, NotOurs, NewerDatabase, OlderDatabase, StoreDamaged, StoreUnwritable,
    StoreBusy, LocksUnreliable.
    """
    if not path.exists():
        raise DatabaseMissing(path)
    with translated(path, wait):
        if read_only:
            return _open_reader(path, schema, clock, wait, as_is)
        chosen = journal_for(path, journal, filesystem)
        return _open_writer(path, schema, clock, wait, chosen)


def _open_reader(path: Path, schema: Schema, clock: Clock, wait: float, as_is: bool) -> SqliteStore:
    connection = reader(path, wait)
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    journal = of_mode("wal" if mode == "wal" else "truncate", "as the file says")
    return SqliteStore(path, schema, clock, wait, journal, connection, None, as_is)


def _open_writer(
    path: Path, schema: Schema, clock: Clock, wait: float, chosen: Journal
) -> SqliteStore:
    from eventstore.sqlite.writer import Writer

    writer = Writer(path, chosen, wait)
    # The last connection to close copies the log into the file, which costs more than an append.
    # One that may not write cannot, so it is opened second and closed last.
    try:
        keeper = reading(path, "mode=ro", wait)
    except BaseException:
        writer.close()
        raise
    return SqliteStore(path, schema, clock, wait, writer.journal, keeper, writer)


class SqliteStore:
    """An EventStore in one SQLite file, for the thread that opened it."""

    def __init__(
        self,
        path: Path,
        schema: Schema,
        clock: Clock,
        wait: float,
        journal: Journal,
        connection: sqlite3.Connection,
        writer: Writer | None,
        as_is: bool = False,
    ) -> None:
        self.path = path
        self.journal = journal
        self._schema = schema
        self._events = Reader(schema, as_is)
        self._clock = clock
        self._wait = wait
        self._reader = connection
        self._writer = writer
        self._closed = False
        self._sql = SqliteStatements()
        self._tip: Tip | None = None

    def _transaction(self) -> Writer:
        if self._writer is None or self._closed:
            raise StoreClosed("closed" if self._closed else "open for reading only")
        return self._writer

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int | Expected,
        claim: Claim,
    ) -> Appended:
        """See EventStore."""
        require_name(stream)
        for event in events:
            self._schema.check_new(event)
        writer, tip = self._transaction(), self._tip
        if len(events) != 1 or events[0].event_id != claim.command_id:
            return self._append(writer, stream, events, expected, claim)
        try:
            if not writer.lock.granted() or tip is None or tip.stream != stream:
                tip = self._tip = writer.look(self._sql.tip, stream, tip)
            done = self._append_next(writer, tip, events[0], claim) if tip.meets(expected) else None
            return done or self._append(writer, stream, events, expected, claim)
        finally:
            writer.lock.release()

    def _append_next(
        self, writer: Writer, tip: Tip, event: NewEvent, claim: Claim
    ) -> Appended | None:
        """Append an event after the head of its stream, unless it or the log ends elsewhere.

        All in one place, as each call costs microseconds after the sync of the last append.
        """
        marked = (tip.stream, claim.command_id, *self._clock())
        link = linked(event, tip.version + 1, tip.hash, marked)
        row, self._tip = (tip.position + 1, *link), None
        if not writer.record_next((row[0], tip.last, row[3], *row[1:], claim.digest)):
            return None
        tip.position, tip.version, tip.hash = row[0], row[2], row[6]
        tip.last = tip.hash
        self._tip = tip
        return Appended(map(self._decoded, (row,)), False)

    def _append(
        self,
        writer: Writer,
        stream: str,
        events: Sequence[NewEvent],
        expected: int | Expected,
        claim: Claim,
    ) -> Appended:
        """Append in a transaction, within the turn that is held or one of its own."""
        with writer as cursor:
            tip, self._tip = tip_of(cursor, self._sql.tip, stream, self._tip), None
            known = self._command(cursor, claim.command_id)
            if known is not None:
                require_same(claim, known, stream)
                return self._answer(known)
            require_version(stream, expected, tip.version)
            marked = (stream, claim.command_id, *self._clock())
            sealed, head = seal(events, tip.head, marked)
            rows = [(position, *link) for position, link in enumerate(sealed, tip.position + 1)]
            span = (tip.version + 1, head.version)
            record(cursor, self._sql, Claimed(claim.command_id, stream, claim.digest, *span), rows)
        self._tip = Tip(tip.changes, stream, rows[-1][0], head.hash, *head) if rows else None
        return Appended(map(self._decoded, rows), False)

    def _decoded(self, row: tuple[Any, ...]) -> RecordedEvent:
        position, *_, hash_, text = row
        return self._schema.decode(position, hash_, text)

    def _command(
        self, database: sqlite3.Connection | sqlite3.Cursor, command_id: str
    ) -> Command | None:
        row = database.execute(COMMAND, (command_id,)).fetchone()
        return None if row is None else Command(*row)

    def _answer(self, known: Command) -> Appended:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return Appended(tuple(found), True)

    def claimed(self, claim: Claim) -> Appended | None:
        """See EventStore."""
        with self._reading() as connection:
            known = self._command(connection, claim.command_id)
        if known is None:
            return None
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """See EventStore."""
        with self._reading() as connection:
            known = self._command(connection, command_id)
        return None if known is None else Claim(command_id, known.digest)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._closed:
            raise StoreClosed("closed")
        with translated(self.path, self._wait):
            yield self._reader

    def _fetch(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        with self._reading() as connection:
            return connection.execute(statement, parameters).fetchall()

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
            raise StoreDamaged(self.path, f"rows out of order: {after!r} after {before!r}")
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

    def wait(self, after: int, timeout: float) -> int:
        """See EventStore."""
        end = time.monotonic() + timeout
        while True:
            ((seen,),) = self._fetch("PRAGMA data_version", ())
            ((last,),) = self._fetch(self._sql.last, ())
            if last > after or time.monotonic() >= end:
                return int(last)
            self._wait_for_others(seen, end)

    def _wait_for_others(self, seen: int, end: float) -> None:
        """Return once the file is not as it was `seen`: a look at one number, no query."""
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
            if self._fetch("PRAGMA data_version", ()) != [(seen,)]:
                return

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
        """See EventStore."""
        from eventstore.intake import all_commands

        return all_commands(self._fetch, COMMANDS)

    def take_in(self, cargo: Cargo) -> None:
        """See EventStore."""
        from eventstore.intake import in_the_way, unpacked

        with self._transaction() as cursor:
            self._tip = None
            ((last,),) = cursor.execute(self._sql.last).fetchall()
            try:
                for statement, rows in unpacked(cargo, self._sql, last):
                    cursor.executemany(statement, rows)
            except sqlite3.IntegrityError as error:
                raise in_the_way(cargo, error) from error

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Every column of a stream's rows, in order of version; damaged text is kept as found."""
        from eventstore.verification import StoredRow

        after = 0
        while found := self._fetch_damaged(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._onward(after, found[-1][2])

    def _fetch_rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """As `_fetch`; a text that is no UTF-8 comes as it was found, for its hash to be judged."""
        try:
            return self._fetch(statement, parameters)
        except StoreDamaged:
            return self._fetch_damaged(statement, parameters)

    def _fetch_damaged(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        self._reader.text_factory = _as_found
        try:
            return self._fetch(statement, parameters)
        finally:
            self._reader.text_factory = str

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent, ())
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """What each of these commands recorded."""
        from eventstore.verification import CommandSpan

        rows = self._fetch_damaged(SPANS, (orjson.dumps(command_ids).decode(),))
        return {id_: CommandSpan(*span) for id_, *span in rows}

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
        """See EventStore; for the whole log SQLite checks its file as well."""
        from eventstore.verification import Finding, findings

        try:
            if stream is None:
                yield from self._engine_findings()
            yield from self._rule_findings(stream)
            yield from findings(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def strays(self) -> Iterator[Finding]:
        """See EventStore."""
        from eventstore.strays import strays

        return strays(self._fetch_rows, self._sql)

    def _engine_findings(self) -> Iterator[Finding]:
        from eventstore.verification import Finding

        for (message,) in self._fetch("PRAGMA integrity_check", ()):
            if message != "ok":
                yield Finding(None, None, None, "engine", message)

    def _rule_findings(self, stream: str | None) -> Iterator[Finding]:
        from eventstore.sqlite.queue import foreign_rules
        from eventstore.verification import Finding

        with self._reading() as connection:
            found = list(foreign_rules(connection))
        for rule in found:
            message = f"expected the triggers and tables that wfctl made, found {rule}"
            yield Finding(stream, None, None, "foreign_rule", message)

    def save_fold(self, fold: StoredFold) -> None:
        """See EventStore."""
        with self._transaction() as cursor:
            cursor.execute(self._sql.delete_fold, (fold.stream, fold.reducer))
            cursor.execute(self._sql.insert_fold, fold)

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """See EventStore."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """See EventStore."""
        data = canonical(refusal.data, "refusal").decode()
        with self._transaction() as cursor:
            cursor.execute(self._sql.insert_refusal, (*refusal[:-1], data))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        from eventstore.intake import all_refusals

        return all_refusals(self._fetch_rows, self._sql, stream)

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """See EventStore."""

    def close(self) -> None:
        """See EventStore."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        self._reader.close()


def _as_found(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
