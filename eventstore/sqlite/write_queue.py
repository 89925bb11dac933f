"""The queue of processes that wait to write to an SQLite file."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from eventstore.disk_space import describe_os_error, is_disk_full_error
from eventstore.errors import StoreBusy, StoreUnwritable
from eventstore.private_files import open_lock, try_lock

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
