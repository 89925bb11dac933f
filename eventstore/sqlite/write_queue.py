"""The queue of processes that write to a SQLite file, and checks of the file and its locks."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eventstore.chain import START, ZERO, Link
from eventstore.disk_space import describe_os_error, is_disk_full_error
from eventstore.errors import StoreBusy, StoreUnwritable
from eventstore.event import TRIGGERS
from eventstore.private_files import open_lock, try_lock
from eventstore.store import Expected, is_expected_version

# Seconds during which a process may continue to append while another process waits first in the
# queue. The waiting process then checks repeatedly whether the lock stays free for a moment. After
# this time it joins the kernel's queue for the lock.
_TURN = 0.01
_PAUSE = 0.0001
_MOMENT = 0.00005
# Seconds to wait for the head of the queue. After this time, other processes pass it, because it
# may be suspended.
_STUCK = 5.0


def writer_lock_path(path: Path) -> Path:
    """Return the path of the lock file that each writer of the database at `path` locks."""
    return path.with_name(path.name + "-lock")


class _LockFile:
    """A file that at most one process at a time can lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        try:
            return open_lock(self.path)
        except OSError as error:
            why = (
                describe_os_error(error)
                if is_disk_full_error(error)
                else error.strerror or str(error)
            )
            raise StoreUnwritable(self.path, why) from error

    def try_acquire(self) -> bool:
        """Lock the file if it is free, and return whether it was locked."""
        return try_lock(self._descriptor)

    def is_free(self) -> bool:
        """Return whether no process or store holds the lock."""
        is_free = try_lock(self._descriptor, fcntl.LOCK_SH)
        if is_free:
            self.release()
        return is_free

    def acquire_until(self, end: float) -> bool:
        """Wait for the lock until the monotonic time `end`, and return whether it was acquired."""
        place = _QueuedLockRequest(self._open())
        if not place.wait_for_lock(max(end - time.monotonic(), 0)):
            return False
        os.close(self._descriptor)
        self._descriptor = place.descriptor
        return True

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        os.close(self._descriptor)


class _QueuedLockRequest:
    """A place in the kernel's queue for a file lock.

    A separate thread waits for the lock, because a blocking lock call has no time-out.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._handover = threading.Lock()
        self._granted = threading.Event()
        self._abandoned = False

    def wait_for_lock(self, wait: float) -> bool:
        """Wait at most `wait` seconds for the lock, and return whether it was taken."""
        threading.Thread(target=self._queue, daemon=True, name="writer-queue").start()
        if self._granted.wait(wait):
            return True
        with self._handover:
            self._abandoned = not self._granted.is_set()
            return not self._abandoned

    def _queue(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        with self._handover:
            if self._abandoned:
                os.close(self.descriptor)
            else:
                self._granted.set()


class WriterLock(_LockFile):
    """A lock for writing to the database at `path`.

    It excludes other processes and other stores of the same process. Writers that cannot get the
    lock immediately wait in a queue.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(writer_lock_path(path))
        self._queue = _LockFile(path.with_name(path.name + "-queue"))

    def acquire(self, wait: float) -> None:
        """Wait at most `wait` seconds for the lock. Raises StoreBusy after this time."""
        if self.try_acquire():
            return
        end = time.monotonic() + wait
        is_head = self._queue.try_acquire() or self._queue.acquire_until(
            min(time.monotonic() + _STUCK, end)
        )
        try:
            if not (self._try_acquire_between_appends(end) or self.acquire_until(end)):
                raise StoreBusy(wait)
        finally:
            if is_head:
                self._queue.release()

    def _try_acquire_between_appends(self, end: float) -> bool:
        """Try for a short time to take the lock between two appends of its current holder.

        Take it only if it stays free for a moment. Return whether it was taken.
        """
        end = min(time.monotonic() + _TURN, end)
        while time.monotonic() < end:
            if self.is_free():
                time.sleep(_MOMENT)
                if self.try_acquire():
                    return True
            time.sleep(_PAUSE)
        return False

    def try_acquire_uncontended(self) -> bool:
        """Take the lock if no other process holds it or waits for it.

        Return whether it was taken. The place in the queue is kept, too.
        """
        if self._queue.try_acquire():
            if self.try_acquire():
                return True
            self._queue.release()
        return False

    def close(self) -> None:
        """Release the lock and close the files."""
        super().close()
        self._queue.close()


@dataclass(slots=True)
class StreamHead:
    """The last events of the log and of one stream.

    The values are valid as long as nobody else writes to the file. Each append updates the object,
    because creating a new object would be too slow.
    """

    #: SQLite's `data_version`. It changes when another connection commits, so an unchanged value
    #: means that nobody else wrote.
    changes: int
    stream: str
    #: Position and hash of the last event of the log, then version and hash of the last event of
    #: the stream.
    position: int
    last: str
    version: int
    hash: str

    @property
    def head(self) -> Link:
        """Version and hash of the last event of the stream."""
        return Link(self.version, self.hash)

    def meets(self, expected: int | Expected) -> bool:
        """Return whether the stream's last version satisfies the writer's expectation."""
        return self.version == expected or is_expected_version(expected, self.version)


def refresh_stream_head(
    cursor: sqlite3.Cursor, statement: str, stream: str, known: StreamHead | None
) -> StreamHead:
    """Return the last events of the log and of a stream.

    Return `known`, the result of an earlier call, if nobody else has written since then. Otherwise
    query the database.
    """
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    found = cursor.execute(statement, (stream,)).fetchone()
    position, last, version, hash_ = found or (0, ZERO, *START)
    return StreamHead(changes, stream, position, last, *(version, hash_) if version else START)


_GUARDED = ("commands", "events", "folds", "refusals")
_ASKED = f"SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN {_GUARDED} ORDER BY name"
_CLAUSE = re.compile(r"ON\s+CONFLICT|^\s*CREATE\s+(?:VIRTUAL|VIEW)", re.IGNORECASE)


def foreign_rules(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a description of each trigger or rule on the log that wfctl did not create."""
    for kind, name, sql in connection.execute(_ASKED):
        if kind == "trigger" and " ".join(str(sql).split()) not in TRIGGERS:
            yield f"the trigger {name!r:.80}"
        elif kind != "trigger" and _CLAUSE.search(str(sql)):
            yield f"an additional rule in the {kind} {name!r:.80}"


MOUNTS = Path("/proc/self/mountinfo")

# Network file systems. Two hosts do not share mapped memory, which makes a write-ahead log unsafe
# on them.
_NETWORK = frozenset(
    (
        *("9p", "afs", "cifs", "coda", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
        *("acfs", "beegfs", "ceph", "cvfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ocfs2", "orangefs", "panfs", "pvfs2", "stornext", "wekafs"),
        *("prl_fs", "vboxsf", "vmhgfs"),
    )
)


def is_network_file_system(kind: str) -> bool:
    """Return whether several hosts may share a file system of this kind. FUSE is included."""
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def detect_file_system_type(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system of `path`, such as "ext4".

    Return "unknown" if the list of mounts cannot be read or does not contain the path.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    place = Path(os.path.realpath(path))
    best, kind = -1, "unknown"
    for point, found in map(_parse_mount, lines):
        # Of several mounts at the same point, the last one is visible. Therefore `>=` is used
        # instead of `>`.
        if place.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), found
    return kind


def _parse_mount(line: str) -> tuple[str, str]:
    """Return the mount point and the file system type from a line of `/proc/self/mountinfo`."""
    left, _, right = line.partition(" - ")
    point = left.split(" ")[4]
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, plain)
    return point, right.split(" ")[0]


def has_working_file_locks(path: Path) -> bool:
    """Return whether file locks work at `path`.

    They work if a locked file cannot be locked a second time.
    """
    first, second = open_lock(path), open_lock(path)
    try:
        # If the first attempt fails, another process holds the lock, so locks work.
        return not (try_lock(first) and try_lock(second))
    finally:
        os.close(first)
        os.close(second)
