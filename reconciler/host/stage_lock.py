"""Lock a stage, so that one process at a time works on it."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from eventstore.private_files import open_lock
from lifecycle.words.values import stage_number
from service.errors import RootBusy

#: Seconds between two attempts to take a lock.
_PAUSE = 0.005
#: Offset in the lock file of the first byte for stages whose name contains no number.
_NAMED = 1 << 32


@contextmanager
def hold_stage(path: Path, stage: str, timeout: float) -> Iterator[None]:
    """Lock a stage against other processes while the block runs.

    Waits for the lock. Raises `RootBusy` if another process holds it for more than ``timeout``
    seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        with hold_free_stages(path, [stage]) as mine:
            if mine:
                yield
                return
        if time.monotonic() >= deadline:
            raise RootBusy(path, timeout)
        time.sleep(_PAUSE)


@contextmanager
def hold_free_stages(path: Path, stages: Iterable[str]) -> Iterator[set[str]]:
    """Lock the stages that no other process has locked, and yield their names."""
    file = open_lock(path)
    try:
        yield {stage for stage in stages if _try_lock_byte(file, _lock_byte(stage))}
    finally:
        os.close(file)


def _lock_byte(stage: str) -> int:
    """Return the position in the lock file of the byte that is locked for a stage.

    This is byte N for ``stage-N``, and a byte far behind for other names. In rare cases two names
    share a byte, and one process then waits for the other without need.
    """
    number = stage_number(stage)
    if number is not None and number < _NAMED:
        return number
    return _NAMED + int.from_bytes(sha256(stage.encode()).digest()[:6])


def _try_lock_byte(file: int, place: int) -> bool:
    """Try to lock a byte of a file, and return whether this process now holds the lock."""
    # struct flock of fcntl(2): type, whence, start, length, and a process id that must be 0.
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True
