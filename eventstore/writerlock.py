"""The queue of writers: a lock file beside the database.

SQLite's own write lock is taken by polling, so under load one writer may wait for seconds. The
kernel wakes those who wait for a file lock in turn.
"""

import fcntl
import os
import threading
from pathlib import Path

from eventstore.errors import StoreBusy, StoreUnwritable


class WriterLock:
    """A lock between processes, and between stores of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreUnwritable(self.path, error.strerror or str(error)) from error

    def acquire(self, wait: float) -> None:
        """Hold the lock within `wait` seconds. Raises StoreBusy."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue(wait)

    def _queue(self, wait: float) -> None:
        turn = _Turn(self._open())
        if not turn.within(wait):
            raise StoreBusy(wait)
        os.close(self._descriptor)
        self._descriptor = turn.descriptor

    def release(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give back the file."""
        os.close(self._descriptor)


class _Turn:
    """A place in the kernel's queue, kept by a thread because a blocking lock has no time-out."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._handover = threading.Lock()
        self._granted = threading.Event()
        self._abandoned = False

    def within(self, wait: float) -> bool:
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
