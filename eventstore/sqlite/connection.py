"""Connections to a SQLite file, for reading and for writing."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from eventstore.disk_space import describe_full_disk
from eventstore.errors import (
    DatabaseMissing,
    EventIdReused,
    EventStoreError,
    LocksUnreliable,
    NewerDatabase,
    NotOurs,
    OlderDatabase,
    StoreBusy,
    StoreDamaged,
    StoreUnwritable,
)
from eventstore.event import APPLICATION_ID, HEAD
from eventstore.regular_files import open_for_reading
from eventstore.sql import EVENT, Statements
from eventstore.sqlite.file_system import (
    detect_file_system_type,
    has_working_file_locks,
    is_network_file_system,
)
from eventstore.sqlite.foreign_rules import foreign_rules
from eventstore.sqlite.stream_head import StreamHead, refresh_stream_head
from eventstore.sqlite.write_queue import WriterLock, writer_lock_path
from eventstore.store import ExecutedCommand, require_no_foreign_rules

_UNWRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM})
# SQLite errors of writing to a file or enlarging it. On a full disk, growing the shared memory
# often fails first.
_UNWRITTEN = frozenset(
    {
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
    }
)
# Size of a write-ahead log without content, which a killed writer may leave. With such a log,
# SQLite would retry for ten seconds if its shared memory is read-only.
_LOG_HEADER_BYTES = 32
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def translate_error(error: sqlite3.Error, path: Path, wait: float) -> EventStoreError:
    """Return the error of the event store that corresponds to an SQLite error.

    Errors caused by wrong use of the driver are raised unchanged.
    """
    if isinstance(error, sqlite3.ProgrammingError):
        raise error
    exactly = getattr(error, "sqlite_errorcode", 0)
    code = exactly & 0xFF
    if code in _BUSY:
        return StoreBusy(wait)
    if code in _UNWRITABLE or exactly in _UNWRITTEN:
        why = describe_full_disk(path) if code == sqlite3.SQLITE_FULL else str(error)
        # All connections of a process share one view of the shared memory. A read-only view
        # therefore also blocks writing through other connections.
        if code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK):
            why += (
                ", because this process has already opened the database for reading; close that "
                "connection first"
            )
        return StoreUnwritable(path, why)
    if code == sqlite3.SQLITE_NOTADB:
        return NotOurs(path, "another type of file")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnwritable(
            path,
            (f"{error}. The folder may not exist, or you may lack permission to open the database"),
        )
    return StoreDamaged(path, str(error))


@contextmanager
def translate_errors(path: Path, wait: float) -> Iterator[None]:
    """Convert SQLite errors in the `with` block into errors of the event store."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path, wait) from error
    except UnicodeDecodeError as error:
        # If an SQLite error message quotes damaged bytes, the driver cannot decode the message and
        # raises this error instead.
        raise StoreDamaged(path, str(error)) from error


def open_connection(path: Path, query: str, wait: float) -> sqlite3.Connection:
    """Open a connection that starts and commits transactions only on request.

    Raises NotOurs if a log or journal file next to the database is a pipe or a link. SQLite would
    wait for the pipe or follow the link.
    """
    _refuse_others_beside(path)
    uri = f"file:{quote(os.fspath(path.absolute()))}?{query}"
    return sqlite3.connect(uri, timeout=wait, isolation_level=None, uri=True)


def _refuse_others_beside(path: Path) -> None:
    if path.is_symlink():  # the files next to it are next to the link's target
        path = Path(os.path.realpath(path))
    for suffix in ("-wal", "-shm", "-journal"):
        try:
            mode = os.lstat(f"{path}{suffix}").st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise NotOurs(Path(f"{path}{suffix}"), "a file that is not a regular file")


def _is_wal_file_valid(path: Path) -> bool:
    """Return whether the `-wal` file of the database is missing, empty or a write-ahead log.

    With any other content, a reader would wait until a writer creates the file again.
    """
    try:
        with open_for_reading(f"{path}-wal") as log:
            begin = log.read(4)
    except FileNotFoundError:
        return True
    return begin in (b"", *_MAGIC)


def open_reader(path: Path, wait: float) -> sqlite3.Connection:
    """Open a connection for reading, without changing files on disk if possible.

    An existing shared-memory file is opened for reading only. If none exists, SQLite creates it;
    on a read-only file system without writers, the database is read without shared memory.
    """
    return _close_if_check_fails(
        open_unchecked_reader(path, wait), lambda c: check_identity(c, path)
    )


def _close_if_check_fails(
    connection: sqlite3.Connection, proof: Callable[[sqlite3.Connection], object]
) -> sqlite3.Connection:
    try:
        proof(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_unchecked_reader(path: Path, wait: float) -> sqlite3.Connection:
    """Open a reading connection like `open_reader`, even to a database of another program."""
    if not path.exists():
        raise DatabaseMissing(path)
    if not path.is_file():
        raise NotOurs(path, "no regular file")
    if _sidecar_size(path, "-wal") == _LOG_HEADER_BYTES or not _is_wal_file_valid(path):
        return _open_fallback_reader(path, wait)
    try:
        return _connect_and_read(path, "mode=ro&readonly_shm=1", wait)
    except sqlite3.OperationalError:
        return _open_fallback_reader(path, wait)


def _open_fallback_reader(path: Path, wait: float) -> sqlite3.Connection:
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        if _sidecar_size(path, "-journal"):
            # A killed writer left an incomplete write. SQLite undoes it when a connection with
            # write access opens the file; until then, nobody can read.
            _connect_and_read(path, "mode=rw", wait).close()
        return _connect_and_read(path, "mode=ro", wait)
    if _sidecar_size(path, "-wal") > _LOG_HEADER_BYTES or _sidecar_size(path, "-journal"):
        return _connect_and_read(path, "mode=ro", wait)
    return _connect_and_read(path, "mode=ro&immutable=1", wait)


def _connect_and_read(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """Open a connection and read once from the file.

    SQLite reports many problems only at the first read, not when it opens the file.
    """
    looking = "SELECT count(*) FROM sqlite_master"
    return _close_if_check_fails(
        open_connection(path, way, wait), lambda c: c.execute(looking).fetchone()
    )


def _sidecar_size(path: Path, suffix: str) -> int:
    beside = path.with_name(path.name + suffix)
    return beside.stat().st_size if beside.exists() else 0


def open_and_check_identity(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """Open a connection and check that the database belongs to wfctl."""
    return _close_if_check_fails(
        open_connection(path, way, wait), lambda c: check_identity(c, path)
    )


def check_identity(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error if another program, or another version of wfctl, created the database."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise NotOurs(path, f"application id {application:#x} instead of {APPLICATION_ID:#x}")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    found = str(row[0]) if row else "none"
    if found > HEAD:
        raise NewerDatabase(path, found, HEAD)
    if found < HEAD:
        raise OlderDatabase(path, found, HEAD)


class Journal(NamedTuple):
    """A journal mode of SQLite, the `synchronous` level that makes it durable, and a reason.

    The reason states why wfctl chose this mode.
    """

    mode: str
    synchronous: str
    reason: str


_SYNCHRONOUS = {"wal": "FULL", "truncate": "EXTRA"}


def choose_journal_settings(
    path: Path, override: str | None = None, kind: Callable[[Path], str] = detect_file_system_type
) -> Journal:
    """Return the journal mode for a database at `path`, chosen by the type of file system.

    `override` ("wal" or "truncate") replaces the automatic choice. Raises ValueError for any other
    override.
    """
    if override is not None:
        return build_journal_settings(override, "as requested")
    found = kind(path.parent)
    if is_network_file_system(found):
        return build_journal_settings(
            "truncate", f"{found} may be shared by several hosts, where WAL is not safe"
        )
    return build_journal_settings("wal", f"{found} is local")


def build_journal_settings(mode: str, reason: str) -> Journal:
    """Return the settings of a journal mode.

    Raises ValueError if the mode is not supported because it could lose events.
    """
    if mode not in _SYNCHRONOUS:
        raise ValueError(
            f"the journal mode {mode!r} is not supported. Use the journal mode wal or truncate."
        )
    return Journal(mode, _SYNCHRONOUS[mode], reason)


#: Columns of the events table. The last column contains the digest of a command that consists of
#: this event only.
ROW = (*EVENT.split(", "), "command_digest")

_EVENT_ID = ROW.index("event_id")


_INSERT = f"INSERT INTO events ({', '.join(ROW)}) VALUES ({{}})"
_CLAIMING = _INSERT.format(", ".join("?" for _ in ROW))

# The stream becomes null if the log has another last event or the command is known. The table
# rejects an event without a stream.
_STREAM = """
CASE WHEN ? IS (SELECT hash FROM events ORDER BY position DESC LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM commands WHERE command_id = ?) THEN ? END"""
#: Statement that appends one event and records its command, in one transaction. It fails if the
#: last event of the log is not the expected one, for example after a restored backup, or if the
#: command is known. A unique index rejects a position that is already used. Parameters: position,
#: hash of the log's last event, command id, columns from stream on, digest.
NEXT = _INSERT.format(", ".join(("?", _STREAM, *("?" for _ in ROW[2:]))))

_CLAIMS = """
SELECT {} FROM (
  SELECT command_id, stream, digest, first_version, last_version FROM commands
  UNION ALL
  SELECT event_id, stream, command_digest, version, version FROM events
  WHERE command_digest IS NOT NULL)
WHERE command_id {}"""


def insert_command_and_events(
    cursor: sqlite3.Cursor,
    sql: Statements,
    command: ExecutedCommand,
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Insert the events of a command, and the record that the command was executed.

    Raises EventIdReused if an event with the same id exists.
    """
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


# Maximum size in bytes of a write-ahead log that remains when a store closes. The next process then
# has to read it. SQLite's own limit has no effect for processes that append once and exit.
_LONG_LOG = 1 << 20
_PAUSE_SECONDS = 0.005


class Writer:
    """A process's connection for writing to a SQLite database."""

    def __init__(self, path: Path, journal: Journal, wait: float) -> None:
        self.path = path
        self.connection = open_and_check_identity(path, "mode=rw", wait)
        # One cursor serves all statements, because creating a cursor for each statement would slow
        # every append.
        self._cursor = self.connection.cursor()
        self._wait = wait
        try:
            if not os.access(path, os.W_OK):
                raise StoreUnwritable(path, "a read-only file")
            require_no_foreign_rules(foreign_rules(self.connection), path)
            if journal.mode == "truncate" and not has_working_file_locks(writer_lock_path(path)):
                raise LocksUnreliable(writer_lock_path(path), detect_file_system_type(path))
            self.lock = WriterLock(path)
            self.journal = self._with_journal(journal)
        except BaseException:
            self.connection.close()
            raise

    def _with_journal(self, journal: Journal) -> Journal:
        (found,) = self.connection.execute("PRAGMA journal_mode").fetchone()
        if (found == "wal") != (journal.mode == "wal"):
            journal = self._switch_journal(journal)
        elif found != journal.mode:
            self._journal_mode(journal.mode)
        self.connection.execute(f"PRAGMA synchronous={journal.synchronous}")
        return journal

    def _switch_journal(self, journal: Journal) -> Journal:
        """Switch the journal mode, and return the journal settings that are now in effect.

        The writer lock is held during the switch, because SQLite does not wait for other
        connections here. If the requested mode is not possible, "truncate" is used.
        """
        self.lock.acquire(self._wait)
        try:
            found = self._set_journal_mode_with_retries(journal.mode)
        finally:
            self.lock.release()
        if found == journal.mode:
            return journal
        self._journal_mode("truncate")
        return build_journal_settings("truncate", f"{journal.mode} is not possible here")

    def _set_journal_mode_with_retries(self, mode: str) -> str:
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
        """Take the writer lock, start a transaction and return its cursor."""
        self.lock.acquire(self._wait)
        try:
            return self._cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self.lock.release()
            raise translate_error(error, self.path, self._wait) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Commit the transaction, or roll it back after an error, and release the writer lock.

        SQLite errors are raised as errors of the event store.
        """
        try:
            if error is None:
                self._cursor.execute("COMMIT")
            elif isinstance(error, sqlite3.Error):
                raise translate_error(error, self.path, self._wait) from error
        except sqlite3.Error as failed:
            raise translate_error(failed, self.path, self._wait) from failed
        finally:
            if self.connection.in_transaction:
                self._cursor.execute("ROLLBACK")
            self.lock.release()

    def lock_and_read_head(
        self, statement: str, stream: str, known: StreamHead | None
    ) -> StreamHead:
        """Take the writer lock, and return the last events of the log and of a stream.

        `known` is the result of an earlier call; it is returned if nobody else has written. Raises
        StoreBusy if the lock stays taken for too long.
        """
        self.lock.acquire(self._wait)
        try:
            return refresh_stream_head(self._cursor, statement, stream, known)
        except sqlite3.Error as error:
            raise translate_error(error, self.path, self._wait) from error

    def record_next(self, row: tuple[Any, ...]) -> bool:
        """Durably append one event with the statement `NEXT`, and return True.

        Return False if the event no longer continues the log, or if its command is already
        recorded.
        """
        try:
            self._cursor.execute(NEXT, row)
        except sqlite3.IntegrityError:
            return False
        except sqlite3.Error as error:
            raise translate_error(error, self.path, self._wait) from error
        return True

    def close(self) -> None:
        """Close the connection.

        First merge a long write-ahead log into the database file, unless another process writes or
        waits to write.
        """
        if _sidecar_size(self.path, "-wal") > _LONG_LOG and self.lock.try_acquire_uncontended():
            self.connection.execute("PRAGMA busy_timeout=0")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # An error may still refer to the cursor, and an open cursor keeps the file open.
        self._cursor.close()
        self.connection.close()
        self.lock.close()


class SqliteStatements(Statements):
    """The SQL statements for SQLite.

    The record of a command is a row of the commands table or, for a command with one event, a
    column of the event's row.
    """

    command = _CLAIMS.format("stream, digest, first_version, last_version", "= ?")
    #: Takes the command ids as a JSON list.
    spans = _CLAIMS.format(
        "command_id, stream, first_version, last_version", "IN (SELECT value FROM json_each(?))"
    )
    commands = _CLAIMS.format("*", "> ? ORDER BY command_id LIMIT ?")
