"""The connection that writes: its queue, its journal, and the transaction of an append."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eventstore.errors import EventIdReused, LocksUnreliable, StoreUnwritable
from eventstore.sqlite.connection import Journal, meaning, of_mode, reading
from eventstore.sqlite.queue import (
    Tip,
    WriterLock,
    kind_of,
    locks_exclude,
    require_own_rules,
    tip_of,
    turn_of,
)
from eventstore.statements import EVENT, Statements
from eventstore.store import Claimed

#: The columns of an event: what its link in the chain holds, between its position and its claim.
ROW = (*EVENT.split(", "), "command_digest")

_EVENT_ID = ROW.index("event_id")


def _insert(*values: str) -> str:
    return f"INSERT INTO events ({', '.join(ROW)}) VALUES ({', '.join(values)})"


_CLAIMING = _insert(*("?" for _ in ROW))

# An event without a stream is refused.
_STREAM = """
CASE WHEN ? IS (SELECT hash FROM events ORDER BY position DESC LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM commands WHERE command_id = ?) THEN ? END"""
#: One event after a known head, which claims its command: a statement that is its own transaction.
#: It fails where the log does not end with the event that was seen there, as after a restore, or
#: where the command is known; what is taken, a unique index refuses. Position, hash of the log's
#: last event, command id, then the columns of the event from its stream on, and the digest.
NEXT = _insert("?", _STREAM, *("?" for _ in ROW[2:]))

_CLAIMS = """
SELECT {} FROM (
  SELECT command_id, stream, digest, first_version, last_version FROM commands
  UNION ALL
  SELECT event_id, stream, command_digest, version, version FROM events
  WHERE command_digest IS NOT NULL)
WHERE command_id {}"""


def record(
    cursor: sqlite3.Cursor, sql: Statements, command: Claimed, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert the rows of a command's events, and its claim. Raises EventIdReused."""
    alone = len(rows) == 1 and rows[0][_EVENT_ID] == command.command_id
    if not alone:
        cursor.execute(sql.insert_command, command)
    try:
        if alone:
            cursor.execute(_CLAIMING, (*rows[0], command.digest))
        else:
            cursor.executemany(sql.insert_event, rows)
    except sqlite3.IntegrityError as error:
        raise EventIdReused(command.stream, [row[_EVENT_ID] for row in rows]) from error


# Bytes of write-ahead log that a closing store leaves: the next process to open reads them all, and
# SQLite's own limit is of no use to processes that append once and end.
_LONG_LOG = 1 << 20
_PAUSE_SECONDS = 0.005


class Writer:
    """One process's way to write into a database."""

    def __init__(self, path: Path, journal: Journal, wait: float) -> None:
        self.path = path
        self.connection = reading(path, "mode=rw", wait)
        # One for all statements, as each append would pay for several of its own.
        self._cursor = self.connection.cursor()
        self._wait = wait
        try:
            if not os.access(path, os.W_OK):
                raise StoreUnwritable(path, "a read-only file")
            require_own_rules(self.connection, path)
            self.lock = _lock_of(path, journal)
            self.journal = self._with_journal(journal)
        except BaseException:
            self.connection.close()
            raise

    def _with_journal(self, journal: Journal) -> Journal:
        (found,) = self.connection.execute("PRAGMA journal_mode").fetchone()
        if (found == "wal") != (journal.mode == "wal"):
            journal = self._switched(journal)
        elif found != journal.mode:
            self._journal_mode(journal.mode)
        self.connection.execute(f"PRAGMA synchronous={journal.synchronous}")
        return journal

    def _switched(self, journal: Journal) -> Journal:
        """Change the file over: one process at a time, and SQLite does not wait for readers."""
        self.lock.acquire(self._wait)
        try:
            found = self._patiently(journal.mode)
        finally:
            self.lock.release()
        if found == journal.mode:
            return journal
        self._journal_mode("truncate")
        return of_mode("truncate", f"{journal.mode} is not possible here")

    def _patiently(self, mode: str) -> str:
        end = time.monotonic() + self._wait
        while True:
            try:
                return self._journal_mode(mode)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _journal_mode(self, mode: str) -> str:
        (found,) = self.connection.execute(f"PRAGMA journal_mode={mode}").fetchone()
        return str(found)

    def __enter__(self) -> sqlite3.Cursor:
        """Begin a transaction: all that happens until the exit, or nothing; in turn with others."""
        self.lock.acquire(self._wait)
        try:
            return self._cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self.lock.release()
            raise meaning(error, self.path, self._wait) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Commit, or undo everything where an error came; the engine's errors become ours."""
        try:
            if error is None:
                self._cursor.execute("COMMIT")
            elif isinstance(error, sqlite3.Error):
                raise meaning(error, self.path, self._wait) from error
        except sqlite3.Error as failed:
            raise meaning(failed, self.path, self._wait) from failed
        finally:
            if self.connection.in_transaction:
                self._cursor.execute("ROLLBACK")
            self.lock.release()

    def look(self, statement: str, stream: str, known: Tip | None) -> Tip:
        """Take the turn, and see where the log and a stream end. Raises StoreBusy."""
        self.lock.acquire(self._wait)
        try:
            return tip_of(self._cursor, statement, stream, known)
        except sqlite3.Error as error:
            raise meaning(error, self.path, self._wait) from error

    def record_next(self, row: tuple[Any, ...]) -> bool:
        """Record the row of `sqlite_append.NEXT` durably, in turn; no if it does not fit."""
        try:
            self._cursor.execute(NEXT, row)
        except sqlite3.IntegrityError:
            return False
        except sqlite3.Error as error:
            raise meaning(error, self.path, self._wait) from error
        return True

    def close(self) -> None:
        """Close, and fold a long log into the file unless others append or wait to."""
        if self._log_size() > _LONG_LOG and self.lock.alone():
            self.connection.execute("PRAGMA busy_timeout=0")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # A cursor that an error still refers to would keep the file open.
        self._cursor.close()
        self.connection.close()
        self.lock.close()

    def _log_size(self) -> int:
        log = self.path.with_name(self.path.name + "-wal")
        return log.stat().st_size if log.exists() else 0


def _lock_of(path: Path, journal: Journal) -> WriterLock:
    if journal.mode == "truncate" and not locks_exclude(turn_of(path)):
        raise LocksUnreliable(turn_of(path), kind_of(path))
    return WriterLock(path)


class SqliteStatements(Statements):
    """The texts for SQLite, where an event may claim its command itself."""

    command = _CLAIMS.format("stream, digest, first_version, last_version", "= ?")
    #: The command ids as a list in JSON.
    spans = _CLAIMS.format(
        "command_id, stream, first_version, last_version", "IN (SELECT value FROM json_each(?))"
    )
    commands = _CLAIMS.format("*", "> ? ORDER BY command_id LIMIT ?")
