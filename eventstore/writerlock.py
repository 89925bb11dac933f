"""The queue of writers: a lock file beside the database.

SQLite's own write lock is taken by polling at ever longer intervals, so under load one writer may
wait for seconds. Here a writer polls at short intervals, which keeps the processors busy with
appends instead of with waking each other, and if that brings no luck it joins the kernel's queue,
which wakes those who wait in turn.
"""

import fcntl
import os
import threading
import time
from pathlib import Path

from eventstore.errors import StoreBusy, StoreUnwritable

# Seconds: the first and the longest pause between two tries, and how long luck is tried.
_PAUSE = 0.0005
_LONGEST_PAUSE = 0.005
_PATIENCE = 0.15


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
        if self.granted():
            return
        if not self._polled(min(wait, _PATIENCE)) and not self._queued(max(wait - _PATIENCE, 0)):
            raise StoreBusy(wait)

    def _polled(self, patience: float) -> bool:
        end, pause = time.monotonic() + patience, _PAUSE
        while time.monotonic() < end:
            time.sleep(pause)
            if self.granted():
                return True
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return False

    def granted(self) -> bool:
        """Hold the lock if nobody else does."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _queued(self, wait: float) -> bool:
        turn = _Turn(self._open())
        if not turn.within(wait):
            return False
        os.close(self._descriptor)
        self._descriptor = turn.descriptor
        return True

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
