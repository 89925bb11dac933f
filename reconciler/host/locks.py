"""Locks: evidence of who holds one, and the locks of stages."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from eventstore.private import open_lock
from lifecycle.words.values import stage_number
from service.errors import RootBusy


def is_held(path: Path) -> bool | None:
    """Say whether a process holds the lock; False where there is no file, None where unreadable.

    The look takes a shared lock for an instant, so those who take the lock for good must allow
    for a moment's wait.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return _refused(handle)
    finally:
        os.close(handle)


def _refused(handle: int) -> bool | None:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # A file system that knows no locks answers with an error: that is no answer.
        return None
    return False


#: Seconds between two tries.
_PAUSE = 0.005
#: From here on lie the bytes of stages with names of their own.
_NAMED = 1 << 32


@contextmanager
def held(path: Path, stage: str, timeout: float) -> Iterator[None]:
    """Hold a stage; raises `RootBusy` where another does for longer than ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    with _opened(path) as file:
        while not _is_taken(file, _place(stage)):
            if time.monotonic() >= deadline:
                raise RootBusy(path, timeout)
            time.sleep(_PAUSE)
        yield


@contextmanager
def held_if_free(path: Path, stages: Iterable[str]) -> Iterator[set[str]]:
    """Hold those of the stages that nobody else holds, and yield which they are."""
    with _opened(path) as file:
        yield {stage for stage in stages if _is_taken(file, _place(stage))}


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = open_lock(path)
    try:
        yield file
    finally:
        os.close(file)


def _place(stage: str) -> int:
    """Return the byte of a stage: the N-th of ``stage-N``, for other names one far behind.

    Two names may share a byte, as rarely as two digests begin alike; then one waits for the other.
    """
    number = stage_number(stage)
    if number is not None and number < _NAMED:
        return number
    return _NAMED + int.from_bytes(sha256(stage.encode()).digest()[:6])


def _is_taken(file: int, place: int) -> bool:
    """Try to lock a byte; says whether that was possible."""
    # struct flock of fcntl(2): type, whence, start, length, and a process id that must be 0.
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True
