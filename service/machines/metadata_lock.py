"""The conductor protocol's own lock: the directory ``.metadata.lock`` beside the file.

Source: the protocol; its other users take it by ``mkdir`` and retry each 0.1 s.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.machines.errors import LockHeld, LockLost
from service.root.disk import Mark, mark_of

NAME = ".metadata.lock"
#: Seconds between two tries, seconds after which a lock is taken for a dead holder's.
RETRY = 0.1
STALE = 30.0

Broken = Callable[[float], None]
"""Is told of a lock that was broken: how old it was, in seconds."""


@contextmanager
def metadata_lock(folder: Path, broken: Broken, timeout: float = 60.0) -> Iterator[None]:
    """Hold the lock of a track's folder; raises `LockHeld` after ``timeout`` seconds.

    Raises `LockLost` at the end where another took it for a dead holder's in the meantime.
    """
    lock = folder / NAME
    ours = _take(lock, broken, timeout)
    try:
        yield
    finally:
        is_kept = _give_back(lock, ours)
    if not is_kept:
        raise LockLost(
            f"{lock}: expected it to be ours until it is given back, found that another program "
            "had broken it.",
            path=str(lock),
        )


def _mark(lock: Path) -> Mark | None:
    """Return what tells this lock from one of another holder, None where there is none."""
    try:
        return mark_of(lock.stat())
    except FileNotFoundError:
        return None


def _give_back(lock: Path, ours: Mark | None) -> bool:
    """Remove the lock, unless it is another's by now; whether it was ours to the end."""
    try:
        is_ours = _mark(lock) == ours
        if is_ours:
            lock.rmdir()
    except FileNotFoundError:
        return False
    return is_ours


def _take(lock: Path, broken: Broken, timeout: float) -> Mark | None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            lock.mkdir()
        except FileExistsError:
            _break_if_dead(lock, broken)
            if time.monotonic() >= deadline:
                raise LockHeld(
                    f"{lock}: expected it to be given back within {timeout:.0f} s; another "
                    "program holds it. Try again, or look for a process that hangs.",
                    path=str(lock),
                ) from None
            time.sleep(RETRY)
        else:
            return _mark(lock)


def _break_if_dead(lock: Path, broken: Broken) -> None:
    """Remove a lock that is older than any holder keeps it; only one breaker gets it."""
    try:
        age = time.time() - lock.stat().st_mtime
        if age < STALE:
            return
        aside = lock.with_name(f"{NAME}.broken.{os.getpid()}")
        lock.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside)
    broken(age)
