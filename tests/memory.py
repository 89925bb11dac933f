"""Keep the files of the tests in memory if possible, because most tests only wait for a disk.

Tests of power losses use programs that hold writes back, on any file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

#: A file system in memory, which every Linux has.
SHARED = Path("/dev/shm")
#: Minimum free space in bytes; a run uses a quarter of it.
_ENOUGH = 4 << 30
_NAME = "wfctl-tests-"


def stay_in_memory() -> Callable[[], None] | None:
    """Move temporary files to memory; return a function that removes them.

    Returns None if TMPDIR is set, or if there is too little space.
    """
    if "TMPDIR" in os.environ or not _is_fit(SHARED):
        return None
    _remove_what_the_dead_left()
    place = Path(tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=SHARED))
    # Servers run as other users.
    place.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    return lambda: shutil.rmtree(place, ignore_errors=True)


def _is_fit(place: Path) -> bool:
    """Return whether a folder has space for a run and allows programs to run."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    # The space is smaller if the memory itself is in use.
    room = min(found.f_bavail * found.f_frsize, _available())
    return room >= _ENOUGH and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def _available() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found) * 1024


def _remove_what_the_dead_left() -> None:
    """Remove the files of killed runs."""
    for left in SHARED.glob(f"{_NAME}*-*"):
        pid = left.name.removeprefix(_NAME).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
