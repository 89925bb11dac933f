"""Locks as evidence: whether somebody holds one, seen without ever making anybody wait."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


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
