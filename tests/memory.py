"""Keep the files of the tests in memory if possible, to save waiting for the disk.

Tests of power losses need no real disk, because their programs hold writes back.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

#: A file system in memory, which every Linux has.
SHARED = Path("/dev/shm")
#: Minimum free space in bytes. A test run uses about a quarter of it.
_ENOUGH = 4 << 30
_NAME = "wfctl-tests-"


def stay_in_memory() -> Callable[[], None] | None:
    """Keep temporary files in memory, and return a function that removes them.

    Returns None and changes nothing if TMPDIR is set, or if there is too little space.
    """
    if "TMPDIR" in os.environ or not _is_fit(SHARED):
        return None
    _remove_what_the_dead_left()
    place = Path(tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=SHARED))
    # Database servers in tests run as other users and need access to this folder.
    place.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    return lambda: shutil.rmtree(place, ignore_errors=True)


def _is_fit(place: Path) -> bool:
    """Return whether a folder is writable, has space for a run, and can hold programs."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    # The file system may report more free space than the memory has.
    room = min(found.f_bavail * found.f_frsize, _available())
    return room >= _ENOUGH and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def _available() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found) * 1024


def _remove_what_the_dead_left() -> None:
    """Remove the folders of killed test runs."""
    for left in SHARED.glob(f"{_NAME}*-*"):
        pid = left.name.removeprefix(_NAME).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
