"""Connections to a SQLite file: those that read, and the one that writes."""

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
from eventstore.private import opened
from eventstore.sql import EVENT, Statements
from eventstore.sqlite.queue import (
    Tip,
    WriterLock,
    foreign_rules,
    is_network,
    kind_of,
    locks_exclude,
    tip_of,
    turn_of,
)
from eventstore.store import Claimed, require_own_rules

_UNWRITABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM})
# Failures to write and to grow a file: on a full disk the shared memory is the first to feel it.
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
# A log that holds nothing more, as a writer leaves it that dies early, sends SQLite into a loop of
# ten seconds when the shared memory is to be read only.
_LOG_HEADER_BYTES = 32
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def meaning(error: sqlite3.Error, path: Path, wait: float) -> EventStoreError:
    """Our error for one of the engine's; a wrong use of the driver is raised as it is."""
    if isinstance(error, sqlite3.ProgrammingError):
        raise error
    exactly = getattr(error, "sqlite_errorcode", 0)
    code = exactly & 0xFF
    if code in _BUSY:
        return StoreBusy(wait)
    if code in _UNWRITABLE or exactly in _UNWRITTEN:
        why = describe_full_disk(path) if code == sqlite3.SQLITE_FULL else str(error)
        # SQLite shares one view of the shared memory among all connections of a process.
        if code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK):
            why += ", as this process opened a store for reading before: close that first"
        return StoreUnwritable(path, why)
    if code == sqlite3.SQLITE_NOTADB:
        return NotOurs(path, "another kind of file")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnwritable(path, f"{error} (no permission, or no folder)")
    return StoreDamaged(path, str(error))


@contextmanager
def translated(path: Path, wait: float) -> Iterator[None]:
    """Turn the engine's errors inside into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(error, path, wait) from error
    except UnicodeDecodeError as error:
        # The driver stumbles over the engine's own message when that quotes damaged bytes.
        raise StoreDamaged(path, str(error)) from error


def connect(path: Path, query: str, wait: float) -> sqlite3.Connection:
    """A connection that begins and commits only when told.

    Raises NotOurs for a pipe or a link beside the file, which SQLite would wait for or follow.
    """
    _refuse_others_beside(path)
    uri = f"file:{quote(os.fspath(path.absolute()))}?{query}"
    return sqlite3.connect(uri, timeout=wait, isolation_level=None, uri=True)


def _refuse_others_beside(path: Path) -> None:
    if path.is_symlink():  # what lies beside is looked for where it leads to
        path = Path(os.path.realpath(path))
    for suffix in ("-wal", "-shm", "-journal"):
        try:
            mode = os.lstat(f"{path}{suffix}").st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise NotOurs(Path(f"{path}{suffix}"), "no regular file")


def _is_a_log(path: Path) -> bool:
    """Whether what lies beside the file begins as a write-ahead log does, or is empty.

    Of another file a reader would wait for a writer to make it anew.
    """
    try:
        with opened(f"{path}-wal") as log:
            begin = log.read(4)
    except FileNotFoundError:
        return True
    return begin in (b"", *_MAGIC)


def reader(path: Path, wait: float) -> sqlite3.Connection:
    """A connection to read through, which changes nothing on disk where that is possible.

    A shared-memory file that is there is opened for reading only. Without one, SQLite makes it;
    on a read-only file system, if nobody writes, the file is taken as it is.
    """
    return _proved(unidentified_reader(path, wait), lambda c: identify(c, path))


def _proved(
    connection: sqlite3.Connection, proof: Callable[[sqlite3.Connection], object]
) -> sqlite3.Connection:
    try:
        proof(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def unidentified_reader(path: Path, wait: float) -> sqlite3.Connection:
    """As `reader`, whosever database it is."""
    if not path.exists():
        raise DatabaseMissing(path)
    if not path.is_file():
        raise NotOurs(path, "no regular file")
    if _size(path, "-wal") == _LOG_HEADER_BYTES or not _is_a_log(path):
        return _other_reader(path, wait)
    try:
        return _looked(path, "mode=ro&readonly_shm=1", wait)
    except sqlite3.OperationalError:
        return _other_reader(path, wait)


def _other_reader(path: Path, wait: float) -> sqlite3.Connection:
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        if _size(path, "-journal"):
            # SQLite undoes what a writer that died had half written: nobody can read before that.
            _looked(path, "mode=rw", wait).close()
        return _looked(path, "mode=ro", wait)
    if _size(path, "-wal") > _LOG_HEADER_BYTES or _size(path, "-journal"):
        return _looked(path, "mode=ro", wait)
    return _looked(path, "mode=ro&immutable=1", wait)


def _looked(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """A connection opened in the given way that has read the file: only then is it known to."""
    looking = "SELECT count(*) FROM sqlite_master"
    return _proved(connect(path, way, wait), lambda c: c.execute(looking).fetchone())


def _size(path: Path, suffix: str) -> int:
    beside = path.with_name(path.name + suffix)
    return beside.stat().st_size if beside.exists() else 0


def reading(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """A connection opened in the given way, its database identified as ours."""
    return _proved(connect(path, way, wait), lambda c: identify(c, path))


def identify(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not ours, newer, or older."""
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
    """A journal mode with the sync level that makes it durable, and why it was chosen."""

    mode: str
    synchronous: str
    reason: str


_SYNCHRONOUS = {"wal": "FULL", "truncate": "EXTRA"}


def journal_for(
    path: Path, override: str | None = None, kind: Callable[[Path], str] = kind_of
) -> Journal:
    """The journal for a database at `path`; `override` is "wal" or "truncate".

    Raises ValueError for another override.
    """
    if override is not None:
        return of_mode(override, "as it was asked for")
    found = kind(path.parent)
    if is_network(found):
        return of_mode("truncate", f"{found} may be shared by hosts, where WAL is unsafe")
    return of_mode("wal", f"{found} is local")


def of_mode(mode: str, reason: str) -> Journal:
    """The journal of a mode. Raises ValueError where the mode is not durable."""
    if mode not in _SYNCHRONOUS:
        raise ValueError(f"expected journal mode wal or truncate, found {mode!r}")
    return Journal(mode, _SYNCHRONOUS[mode], reason)


#: The columns of an event: what its link in the chain holds, between its position and its claim.
ROW = (*EVENT.split(", "), "command_digest")

_EVENT_ID = ROW.index("event_id")


_INSERT = f"INSERT INTO events ({', '.join(ROW)}) VALUES ({{}})"
_CLAIMING = _INSERT.format(", ".join("?" for _ in ROW))

# An event without a stream is refused.
_STREAM = """
CASE WHEN ? IS (SELECT hash FROM events ORDER BY position DESC LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM commands WHERE command_id = ?) THEN ? END"""
#: One event after a known head, which claims its command: a statement that is its own transaction.
#: It fails where the log does not end with the event that was seen there, as after a restore, or
#: where the command is known; what is taken, a unique index refuses. Position, hash of the log's
#: last event, command id, then the columns of the event from its stream on, and the digest.
NEXT = _INSERT.format(", ".join(("?", _STREAM, *("?" for _ in ROW[2:]))))

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
            require_own_rules(foreign_rules(self.connection), path)
            if journal.mode == "truncate" and not locks_exclude(turn_of(path)):
                raise LocksUnreliable(turn_of(path), kind_of(path))
            self.lock = WriterLock(path)
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
        if _size(self.path, "-wal") > _LONG_LOG and self.lock.alone():
            self.connection.execute("PRAGMA busy_timeout=0")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # A cursor that an error still refers to would keep the file open.
        self._cursor.close()
        self.connection.close()
        self.lock.close()


class SqliteStatements(Statements):
    """The texts for SQLite, where an event may claim its command itself."""

    command = _CLAIMS.format("stream, digest, first_version, last_version", "= ?")
    #: The command ids as a list in JSON.
    spans = _CLAIMS.format(
        "command_id, stream, first_version, last_version", "IN (SELECT value FROM json_each(?))"
    )
    commands = _CLAIMS.format("*", "> ? ORDER BY command_id LIMIT ?")
