"""Check whether a process holds the lock of a file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_lock_held(path: Path) -> bool | None:
    """Return whether a process holds the lock on a file.

    Returns False if the file does not exist, and None if the lock cannot be checked. The check
    itself takes a shared lock for a moment. A process that wants the exclusive lock must therefore
    wait briefly.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # On a file system without locks, the check fails, so the state of the lock is unknown.
        return None
    finally:
        os.close(handle)
    return False
