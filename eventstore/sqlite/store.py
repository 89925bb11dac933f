"""The event log in a SQLite file.

Code for importing a log is imported only when it is used, because most commands only read.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from eventstore.chain import build_chained_row, build_chained_rows
from eventstore.errors import DatabaseMissing, StoreClosed
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.schema import Schema
from eventstore.sqlite.connection import (
    Journal,
    SqliteStatements,
    Writer,
    build_journal_settings,
    choose_journal_settings,
    insert_command_and_events,
    open_and_check_identity,
    open_reader,
    translate_errors,
)
from eventstore.sqlite.file_system import detect_file_system_type
from eventstore.sqlite.foreign_rules import foreign_rules
from eventstore.sqlite.stream_head import StreamHead, refresh_stream_head
from eventstore.store import (
    AppendResult,
    Claim,
    EventStore,
    ExecutedCommand,
    Expected,
    ImportBatch,
    require_expected_version,
    require_same_command,
)

_WAIT = 30.0
# Seconds between two checks for new events.
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
    filesystem: Callable[[Path], str] = detect_file_system_type,
) -> SqliteStore:
    """Open the database at `path`, which a migration has created.

    `clock` returns the recording time of an event. With `as_is`, events are read without checking
    their hashes. `journal` ("wal" or "truncate") replaces the automatic choice by file system.
    `wait` is the maximum time in seconds to wait for other writers.

    Raises DatabaseMissing, NotOurs, NewerDatabase, OlderDatabase, StoreDamaged, StoreUnwritable,
    StoreBusy or LocksUnreliable.
    """
    if not path.exists():
        raise DatabaseMissing(path)
    with translate_errors(path, wait):
        if read_only:
            connection = open_reader(path, wait)
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            found = build_journal_settings(
                "wal" if mode == "wal" else "truncate", "as stored in the file"
            )
            return SqliteStore(path, schema, clock, wait, found, connection, None, as_is)
        writer = Writer(path, choose_journal_settings(path, journal, filesystem), wait)
        # The last connection that closes merges the write-ahead log into the database file, which
        # takes some time. A read-only connection cannot do this. Therefore it is opened second and
        # closed last.
        try:
            keeper = open_and_check_identity(path, "mode=ro", wait)
        except BaseException:
            writer.close()
            raise
        return SqliteStore(path, schema, clock, wait, writer.journal, keeper, writer)


class SqliteStore(EventStore):
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
        super().__init__(path, SqliteStatements(), schema, clock, as_is)
        self.path = path
        self.journal = journal
        self._wait = wait
        self._reader = connection
        self._writer = writer
        self._tip: StreamHead | None = None

    def _transaction(self) -> Writer:
        if self._writer is None or self._closed:
            raise StoreClosed("closed" if self._closed else "open for reading only")
        return self._writer

    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> AppendResult:
        """See EventStore."""
        self._require_new(stream, events)
        writer, tip = self._transaction(), self._tip
        if len(events) != 1 or events[0].event_id != claim.command_id:
            return self._append(writer, stream, events, expected, claim)
        try:
            if not writer.lock.try_acquire() or tip is None or tip.stream != stream:
                tip = self._tip = writer.lock_and_read_head(self._sql.tip, stream, tip)
            done = (
                self._try_append_single_event(writer, tip, events[0], claim)
                if tip.meets(expected)
                else None
            )
            return done or self._append(writer, stream, events, expected, claim)
        finally:
            writer.lock.release()

    def _try_append_single_event(
        self, writer: Writer, tip: StreamHead, event: NewEvent, claim: Claim
    ) -> AppendResult | None:
        """Append an event with a single statement, and return the result.

        `tip` has the last events of the log and of the stream. Return None if it is outdated or the
        command is already recorded; nothing is recorded then. This is one function, because each
        further call would add microseconds to every append.
        """
        marked = (tip.stream, claim.command_id, *self._clock())
        link = build_chained_row(event, tip.version + 1, tip.hash, marked)
        row, self._tip = (tip.position + 1, *link), None
        if not writer.record_next((row[0], tip.last, row[3], *row[1:], claim.digest)):
            return None
        tip.position, tip.version, tip.hash = row[0], row[2], row[6]
        tip.last = tip.hash
        self._tip = tip
        return AppendResult(map(self._decoded, (row,)), False)

    def _append(
        self,
        writer: Writer,
        stream: str,
        events: Sequence[NewEvent],
        expected: int | Expected,
        claim: Claim,
    ) -> AppendResult:
        """Append events in a transaction that holds the writer lock."""
        with writer as cursor:
            tip, self._tip = refresh_stream_head(cursor, self._sql.tip, stream, self._tip), None
            found = cursor.execute(self._sql.command, (claim.command_id,)).fetchone()
            if found is not None:
                known = ExecutedCommand(claim.command_id, *found)
                require_same_command(claim, known, stream)
                return self._answer(known)
            require_expected_version(stream, expected, tip.version)
            marked = (stream, claim.command_id, *self._clock())
            sealed, head = build_chained_rows(events, tip.head, marked)
            rows = [(position, *link) for position, link in enumerate(sealed, tip.position + 1)]
            span = (tip.version + 1, head.version)
            insert_command_and_events(
                cursor,
                self._sql,
                ExecutedCommand(claim.command_id, stream, claim.digest, *span),
                rows,
            )
        self._tip = StreamHead(tip.changes, stream, rows[-1][0], head.hash, *head) if rows else None
        return AppendResult(map(self._decoded, rows), False)

    def _decoded(self, row: tuple[Any, ...]) -> RecordedEvent:
        position, *_, hash_, text = row
        return self._schema.decode(position, hash_, text)

    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        if self._closed:
            raise StoreClosed("closed")
        with translate_errors(self.path, self._wait):
            return self._reader.execute(statement, parameters).fetchall()

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        with self._transaction() as cursor:
            for statement, parameters in statements:
                cursor.execute(statement, parameters)

    def _encode_as_single_parameter(self, values: Sequence[str]) -> str:
        return orjson.dumps(values).decode()

    def _engine_findings(self) -> Iterator[str]:
        return (found for (found,) in self._fetch("PRAGMA integrity_check") if found != "ok")

    def _foreign_rules(self) -> list[str]:
        with translate_errors(self.path, self._wait):
            return list(foreign_rules(self._reader))

    def wait(self, after: int, timeout: float) -> int:
        """See EventStore."""
        end = time.monotonic() + timeout
        while True:
            ((seen,),) = self._fetch("PRAGMA data_version")
            ((last,),) = self._fetch(self._sql.last)
            if last > after or time.monotonic() >= end:
                return int(last)
            self._wait_for_other_commit(seen, end)

    def _wait_for_other_commit(self, seen: int, end: float) -> None:
        """Wait until another connection commits, at most until the monotonic time `end`.

        SQLite's `data_version` then differs from `seen`.
        """
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
            if self._fetch("PRAGMA data_version") != [(seen,)]:
                return

    def import_batch(self, cargo: ImportBatch) -> None:
        """See EventStore."""
        from eventstore.import_rows import build_import_statements, build_transfer_conflict

        with self._transaction() as cursor:
            self._tip = None
            ((last,),) = cursor.execute(self._sql.last).fetchall()
            try:
                for statement, rows in build_import_statements(cargo, self._sql, last):
                    cursor.executemany(statement, rows)
            except sqlite3.IntegrityError as error:
                raise build_transfer_conflict(cargo, error) from error

    def _fetch_damaged(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        self._reader.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        try:
            return self._fetch(statement, parameters)
        finally:
            self._reader.text_factory = str

    def close(self) -> None:
        """See EventStore."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        self._reader.close()
