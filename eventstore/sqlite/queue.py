"""The queue of writers: two lock files beside the database.

SQLite's own write lock is taken by polling at ever longer intervals, so under load one writer may
wait for seconds. Here whoever appends holds the turn, and who finds it taken joins a queue that the
kernel keeps, whose head alone looks for the turn: the others cost the processors nothing. As pages
and caches are read anew after each handover, a process that appends again and again keeps the turn
for a while; then the kernel wakes the head of the queue at each release.
"""

import fcntl
import os
import threading
import time
from pathlib import Path

from eventstore.errors import StoreBusy, StoreUnwritable
from eventstore.private import open_lock

# Seconds: how long a process may go on appending once somebody waits at the head of the queue, the
# pause between two looks of that one, and the moment for which the turn must have been free, as it
# is between two appends of one process too.
_TURN = 0.01
_PAUSE = 0.0001
_MOMENT = 0.00005
# So long nobody is the head of a queue that moves: it was suspended, and the others go past it.
_STUCK = 5.0

_AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB


def turn_of(path: Path) -> Path:
    """The file that whoever appends to the database at `path` holds."""
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
            raise StoreUnwritable(self.path, error.strerror or str(error)) from error

    def granted(self) -> bool:
        """Hold it if nobody else does."""
        try:
            fcntl.flock(self._descriptor, _AT_ONCE)
        except BlockingIOError:
            return False
        return True

    def is_free(self) -> bool:
        """Whether nobody holds it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.release()
        return True

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
        """Hold the turn if whoever has it makes no more use of it."""
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
