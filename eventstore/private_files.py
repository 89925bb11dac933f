"""Create the files of a log without exposing them to other users."""

from __future__ import annotations

import fcntl
import os
import stat
from errno import EINVAL
from pathlib import Path

_OWNER, _GROUP = 0o600, 0o060
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def private_file_mode(folder: Path) -> int:
    """Return the access mode for a new private file in the folder.

    The file is for its owner alone, or also for the group if the group may write to the folder.
    """
    try:
        shared = folder.stat().st_mode & stat.S_IWGRP
    except FileNotFoundError:
        return _OWNER
    return _OWNER | (_GROUP if shared else 0)


def open_lock(path: Path, home: Path | None = None) -> int:
    """Open the lock file at `path`, creating it if needed, and return its descriptor.

    `home` is the folder whose access mode decides whether the group may use the file. Its default
    is the folder of the file. An existing file of this user gets the same access mode. Raises
    OSError, also if the path is not a regular file.
    """
    wanted = private_file_mode(home or path.parent)
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


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Try to lock an open file without waiting, and return whether the lock was acquired."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def create_private_file(path: Path) -> None:
    """Create an empty private file, unless the path exists.

    The group gets access to the file only if it may write to the folder.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, private_file_mode(path.parent))
    finally:
        os.close(descriptor)


def create_owner_only_folder(path: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner.

    The parents must be private too: anyone with write access to a parent could replace the folder.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def create_private_folder(path: Path, home: Path | None = None) -> None:
    """Create a private folder, unless the folder exists.

    The group gets access only if it may write to the folder `home`. Without `home`, only the owner
    has access.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if home is not None and private_file_mode(home) & _GROUP:
        # Keep the set-group-ID bit, which gives new files in the folder to the folder's group.
        path.chmod(0o770 | path.stat().st_mode & stat.S_ISGID)


def is_shared_with_group(root: Path) -> bool:
    """Return whether a group shares the folder.

    In a shared folder, the group may write, and new files belong to the group of the folder.
    """
    try:
        mode = root.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def set_umask_for_shared_folder(root: Path) -> None:
    """Change the process's umask to give the group access to new files, if the folder is shared."""
    if is_shared_with_group(root):
        os.umask(os.umask(0o077) & ~0o070)
