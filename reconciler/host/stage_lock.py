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


#: Offset of the first lock byte for stages whose name is not a number.
_NAMED = 1 << 32


@contextmanager
def hold_stage(path: Path, stage: str, timeout: float) -> Iterator[None]:
    """Hold a stage.

    Raises `RootBusy` if another process holds it for more than ``timeout`` seconds.
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
    """Hold those stages that no other process holds, and yield their names."""
    file = open_lock(path)
    try:
        yield {stage for stage in stages if _is_taken(file, _lock_byte(stage))}
    finally:
        os.close(file)


def _lock_byte(stage: str) -> int:
    """Return the lock byte of a stage: byte N for ``stage-N``, a distant byte for other names.

    In rare cases, two names share a byte. Then one process waits for the other.
    """
    number = stage_number(stage)
    if number is not None and number < _NAMED:
        return number
    return _NAMED + int.from_bytes(sha256(stage.encode()).digest()[:6])


def _is_taken(file: int, place: int) -> bool:
    """Try to lock a byte, and return whether this succeeded."""
    # struct flock of fcntl(2): type, whence, start, length, and a process id that must be 0.
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True
