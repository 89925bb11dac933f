"""What kind of file system a path lies on, and whether its locks can be trusted."""

import fcntl
import os
from pathlib import Path

from eventstore.private import open_lock

MOUNTS = Path("/proc/self/mountinfo")

# Memory mapped by two hosts is not shared, so a write-ahead log is unsafe on these.
_NETWORK = frozenset(
    (
        *("9p", "afs", "cifs", "coda", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs"),
        *("acfs", "beegfs", "ceph", "cvfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ocfs2", "orangefs", "panfs", "pvfs2", "stornext", "wekafs"),
        *("prl_fs", "vboxsf", "vmhgfs"),
    )
)


def is_network(kind: str) -> bool:
    """Whether several hosts may see a file system of this kind; FUSE counts, as it may be any."""
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def kind_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Type of the file system that holds `path`, "unknown" where the kernel does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "unknown"
    place = Path(os.path.realpath(path))
    best, kind = -1, "unknown"
    for point, found in map(_mount, lines):
        # A later mount over the same point hides the earlier one.
        if place.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), found
    return kind


def _mount(line: str) -> tuple[str, str]:
    """Mount point and type: fields five, and the first after the dash, of mountinfo."""
    left, _, right = line.partition(" - ")
    point = left.split(" ")[4]
    for escaped, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(escaped, plain)
    return point, right.split(" ")[0]


def locks_exclude(path: Path) -> bool:
    """Whether a lock on the file at `path` keeps a second holder out."""
    first, second = open_lock(path), open_lock(path)
    try:
        # Where the first is refused, another process holds the lock, and it excludes.
        return not (_granted(first) and _granted(second))
    finally:
        os.close(first)
        os.close(second)


def _granted(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
