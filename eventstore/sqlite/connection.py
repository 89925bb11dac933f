"""Connections to a SQLite file, and what the engine's errors mean."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from eventstore.errors import (
    DatabaseMissing,
    EventStoreError,
    NewerDatabase,
    NotOurs,
    OlderDatabase,
    StoreBusy,
    StoreDamaged,
    StoreUnwritable,
)
from eventstore.event import APPLICATION_ID, HEAD
from eventstore.private import opened
from eventstore.sqlite.queue import is_network, kind_of

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
        return StoreUnwritable(path, _why_unwritable(error, path))
    if code == sqlite3.SQLITE_NOTADB:
        return NotOurs(path, "another kind of file")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnwritable(path, f"{error} (no permission, or no folder)")
    return StoreDamaged(path, str(error))


def _why_unwritable(error: sqlite3.Error, path: Path) -> str:
    # SQLite shares one view of the shared memory among all connections of a process.
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK):
        return f"{error}, as this process opened a store for reading before: close that first"
    return str(error)


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
    on a read-only file system, where nobody writes, the file is taken as it is.
    """
    connection = unidentified_reader(path, wait)
    try:
        identify(connection, path)
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
        _roll_back_interrupted(path, wait)
        return _looked(path, "mode=ro", wait)
    if _size(path, "-wal") > _LOG_HEADER_BYTES or _size(path, "-journal"):
        return _looked(path, "mode=ro", wait)
    return _looked(path, "mode=ro&immutable=1", wait)


def _roll_back_interrupted(path: Path, wait: float) -> None:
    """Let SQLite undo what a writer that died had half written: nobody can read before that."""
    if _size(path, "-journal"):
        _looked(path, "mode=rw", wait).close()


def _looked(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """A connection opened in the given way that has read the file: only then is it known to."""
    connection = connect(path, way, wait)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _size(path: Path, suffix: str) -> int:
    beside = path.with_name(path.name + suffix)
    return beside.stat().st_size if beside.exists() else 0


def reading(path: Path, way: str, wait: float) -> sqlite3.Connection:
    """A connection opened in the given way, its database identified as ours."""
    connection = connect(path, way, wait)
    try:
        identify(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


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
