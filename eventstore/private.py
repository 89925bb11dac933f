"""Files and folders that other logins cannot open: who can read a lock file can hold it.

A folder is shared where its owner lets the group write it; then the group may open what is in it
too, as it could put other files in their place anyway. The umask has no say in either.
"""

import os
import stat
from errno import EINVAL
from pathlib import Path

_OWNER, _GROUP = 0o600, 0o060
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def file_mode(folder: Path) -> int:
    """The mode of a private file in the folder, or below it."""
    try:
        shared = folder.stat().st_mode & stat.S_IWGRP
    except FileNotFoundError:
        return _OWNER
    return _OWNER | (_GROUP if shared else 0)


def open_lock(path: Path, home: Path | None = None) -> int:
    """A descriptor of a lock file, which is made where it is not there.

    `home` is the folder that says who shares it, its own without one. An older file of ours that
    others can open is closed to them. Raises OSError, also where it is no regular file.
    """
    wanted = file_mode(home or path.parent)
    descriptor = os.open(path, _LOCK, wanted)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(EINVAL, "expected a regular file", os.fspath(path))
        if stat.S_IMODE(found.st_mode) != wanted and found.st_uid == os.geteuid():
            os.fchmod(descriptor, wanted)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_file(path: Path) -> None:
    """Make an empty file that other logins cannot open, unless something is there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, file_mode(path.parent))
    finally:
        os.close(descriptor)


def make_own_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone, as OpenSSH does.

    Whoever may write in one of them could put another in its place.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def make_folder(path: Path, home: Path | None = None) -> None:
    """Make a folder that other logins cannot enter, unless it is there.

    `home` is the folder that says who shares it; without one it is for its owner alone.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if home is not None and file_mode(home) & _GROUP:
        path.chmod(0o770)
