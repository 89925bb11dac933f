"""Check whether the file system of a log supports locks."""

from __future__ import annotations

import os
from pathlib import Path

from eventstore.private_files import open_lock, try_lock

MOUNTS = Path("/proc/self/mountinfo")
# Network file systems. Two hosts do not share mapped memory, which makes a write-ahead log unsafe
# on them.
_NETWORK = frozenset(
    (
        *("9p", "afs", "cifs", "coda", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
        *("acfs", "beegfs", "ceph", "cvfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ocfs2", "orangefs", "panfs", "pvfs2", "stornext", "wekafs"),
        *("prl_fs", "vboxsf", "vmhgfs"),
    )
)


def is_network_file_system(kind: str) -> bool:
    """Return whether several hosts may share a file system of this kind. FUSE is included."""
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def detect_file_system_type(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system of `path`, such as "ext4".

    Return "unknown" if the list of mounts cannot be read or does not contain the path.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    place = Path(os.path.realpath(path))
    best, kind = -1, "unknown"
    for point, found in map(_parse_mount, lines):
        # Of several mounts at the same point, the last one is visible. Therefore `>=` is used
        # instead of `>`.
        if place.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), found
    return kind


def _parse_mount(line: str) -> tuple[str, str]:
    """Return the mount point and the file system type from a line of `/proc/self/mountinfo`."""
    left, _, right = line.partition(" - ")
    point = left.split(" ")[4]
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, plain)
    return point, right.split(" ")[0]


def has_working_file_locks(path: Path) -> bool:
    """Return whether file locks work at `path`.

    They work if a locked file cannot be locked a second time.
    """
    first, second = open_lock(path), open_lock(path)
    try:
        # If the first attempt fails, another process holds the lock, so locks work.
        return not (try_lock(first) and try_lock(second))
    finally:
        os.close(first)
        os.close(second)
