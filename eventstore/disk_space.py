"""Detect a full file system, and report its mount point and free space."""

from __future__ import annotations

import os
import re
from errno import EDQUOT, ENOSPC
from pathlib import Path

#: Error numbers of a write that fails because the disk or a quota is full.
NO_ROOM = frozenset({ENOSPC, EDQUOT})
#: Matches the messages that other programs print when the disk or a quota is full.
NO_ROOM_REPORTED = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def is_disk_full_error(error: BaseException) -> bool:
    """Return whether a write failed because the disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def describe_os_error(error: OSError, *likely: Path) -> str:
    """Return the system's message for an error, with the name of a full file system.

    The file system is named only if the disk or quota is full. ``likely`` contains the paths to
    check if the error names no file.
    """
    places = [Path(os.fsdecode(error.filename))] if error.filename else likely
    if not (is_disk_full_error(error) and places):
        return str(error)
    return f"{describe_full_disk(*places)}: {error}"


def describe_full_disk(*paths: Path) -> str:
    """Return an error message for a full file system.

    The message names the file system of the given paths that has the fewest free bytes.
    """
    place = min(map(_find_existing_path, paths), key=_free_bytes)
    return f"no room is left on {describe_file_system(place)}"


def describe_file_system(path: Path) -> str:
    """Return a message with the mount point and the free bytes of a path's file system."""
    place = _find_existing_path(path)
    found = os.statvfs(place)
    inodes = ", no file can be added" if found.f_files and not found.f_favail else ""
    return f"the file system {_mount_point(place)} ({_free_bytes(place)} bytes free{inodes})"


def has_no_free_bytes(path: Path) -> bool:
    """Return whether the file system of a path has no free byte for this user."""
    return _free_bytes(_find_existing_path(path)) == 0


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _find_existing_path(path: Path) -> Path:
    """Return the path with symbolic links resolved, or its nearest parent that exists."""
    real = Path(os.path.realpath(path))
    return next((one for one in (real, *real.parents) if os.path.lexists(one)), Path("/"))


def _mount_point(path: Path) -> Path:
    return next((one for one in (path, *path.parents) if one.is_mount()), Path("/"))
