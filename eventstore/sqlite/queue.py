"""The queue of writers, the end of the log that this login has seen, and our rules in the file."""

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
from eventstore.disk_space import is_no_room, reason_of
from eventstore.errors import StoreBusy, StoreUnwritable
from eventstore.event import TRIGGERS
from eventstore.private import granted, open_lock
from eventstore.store import Expected, is_met

# Seconds: how long a process may go on appending once somebody waits at the head of the queue, the
# pause between two looks of that one, and the moment for which the turn must have been free, as it
# is between two appends of one process too.
_TURN = 0.01
_PAUSE = 0.0001
_MOMENT = 0.00005
# So long nobody is the head of a queue that moves: it was suspended, and the others go past it.
_STUCK = 5.0


def turn_of(path: Path) -> Path:
    """The file that anyone who appends to the database at `path` holds."""
    return path.with_name(path.name + "-lock")


class _LockFile:
    """A file that one process at a time may hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        try:
            return open_lock(self.path)
        except OSError as error:
            why = reason_of(error) if is_no_room(error) else error.strerror or str(error)
            raise StoreUnwritable(self.path, why) from error

    def granted(self) -> bool:
        """Hold it if nobody else does."""
        return granted(self._descriptor)

    def is_free(self) -> bool:
        """Whether nobody holds it."""
        is_free = granted(self._descriptor, fcntl.LOCK_SH)
        if is_free:
            self.release()
        return is_free

    def reached(self, end: float) -> bool:
        """Hold it in turn, before `end`, a monotonic time."""
        place = _Place(self._open())
        if not place.reached(max(end - time.monotonic(), 0)):
            return False
        os.close(self._descriptor)
        self._descriptor = place.descriptor
        return True

    def release(self) -> None:
        """Let another hold it."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give back the file."""
        os.close(self._descriptor)


class _Place:
    """A place in the kernel's queue, kept by a thread because a blocking lock has no time-out."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._handover = threading.Lock()
        self._granted = threading.Event()
        self._abandoned = False

    def reached(self, wait: float) -> bool:
        """Hold the lock within so many seconds."""
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
    """A lock between processes, and between stores of one process, on the database at `path`.

    It is the file of the turn, to which the queue leads.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(turn_of(path))
        self._queue = _LockFile(path.with_name(path.name + "-queue"))

    def acquire(self, wait: float) -> None:
        """Hold the lock within `wait` seconds. Raises StoreBusy."""
        if self.granted():
            return
        end = time.monotonic() + wait
        is_head = self._queue.granted() or self._queue.reached(min(time.monotonic() + _STUCK, end))
        try:
            if not (self._was_left(end) or self.reached(end)):
                raise StoreBusy(wait)
        finally:
            if is_head:
                self._queue.release()

    def _was_left(self, end: float) -> bool:
        """Hold the turn if anyone who has it makes no more use of it."""
        end = min(time.monotonic() + _TURN, end)
        while time.monotonic() < end:
            if self.is_free():
                time.sleep(_MOMENT)
                if self.granted():
                    return True
            time.sleep(_PAUSE)
        return False

    def alone(self) -> bool:
        """Hold the lock if nobody else does, or waits for it."""
        if self._queue.granted():
            if self.granted():
                return True
            self._queue.release()
        return False

    def close(self) -> None:
        """Give back the files, and what is held."""
        super().close()
        self._queue.close()


@dataclass(slots=True)
class Tip:
    """Where the log and a stream end, known for as long as nobody else changes the file.

    It moves on with each append, as making another costs more than the rest of what it is for.
    """

    #: SQLite's `data_version`, which every commit of another connection changes.
    changes: int
    stream: str
    #: Position and hash of the log's last event; version and hash are those of the stream's.
    position: int
    last: str
    version: int
    hash: str

    @property
    def head(self) -> Link:
        """The end of the stream's chain."""
        return Link(self.version, self.hash)

    def meets(self, expected: int | Expected) -> bool:
        """Whether the head of the stream is as expected."""
        return self.version == expected or is_met(expected, self.version)


def tip_of(cursor: sqlite3.Cursor, statement: str, stream: str, known: Tip | None) -> Tip:
    """The tip within the turn: what is known, unless others wrote, or what `statement` finds."""
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    found = cursor.execute(statement, (stream,)).fetchone()
    position, last, version, hash_ = found or (0, ZERO, *START)
    return Tip(changes, stream, position, last, *(version, hash_) if version else START)


_GUARDED = ("commands", "events", "folds", "refusals")
_ASKED = f"SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN {_GUARDED} ORDER BY name"
_CLAUSE = re.compile(r"ON\s+CONFLICT|^\s*CREATE\s+(?:VIRTUAL|VIEW)", re.IGNORECASE)


def foreign_rules(connection: sqlite3.Connection) -> Iterator[str]:
    """What would act on rows of the log and was not created by wfctl."""
    for kind, name, sql in connection.execute(_ASKED):
        if kind == "trigger" and " ".join(str(sql).split()) not in TRIGGERS:
            yield f"the trigger {name!r:.80}"
        elif kind != "trigger" and _CLAUSE.search(str(sql)):
            yield f"a rule of its own in the {kind} {name!r:.80}"


MOUNTS = Path("/proc/self/mountinfo")

# Memory mapped by two hosts is not shared, so a write-ahead log is unsafe on these.
_NETWORK = frozenset(
    (
        *("9p", "afs", "cifs", "coda", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
        *("acfs", "beegfs", "ceph", "cvfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ocfs2", "orangefs", "panfs", "pvfs2", "stornext", "wekafs"),
        *("prl_fs", "vboxsf", "vmhgfs"),
    )
)


def is_network(kind: str) -> bool:
    """Whether several hosts may see a file system of this kind; FUSE counts, as it may be any."""
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def kind_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Type of the file system that holds `path`, "unknown" where the kernel does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    place = Path(os.path.realpath(path))
    best, kind = -1, "unknown"
    for point, found in map(_mount, lines):
        # A later mount over the same point hides the earlier one.
        if place.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), found
    return kind


def _mount(line: str) -> tuple[str, str]:
    """Mount point and type: fields five, and the first after the dash, of mountinfo."""
    left, _, right = line.partition(" - ")
    point = left.split(" ")[4]
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, plain)
    return point, right.split(" ")[0]


def locks_exclude(path: Path) -> bool:
    """Whether a lock on the file at `path` keeps a second holder out."""
    first, second = open_lock(path), open_lock(path)
    try:
        # Where the first is refused, another process holds the lock, and it excludes.
        return not (granted(first) and granted(second))
    finally:
        os.close(first)
        os.close(second)
