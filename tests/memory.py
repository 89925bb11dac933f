"""Where the tests keep their files: in memory where there is enough, as most only wait for a disk.

What a loss of power leaves is tested by programs that hold writes back, on any file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

#: A file system in memory, which Linux has anyway.
SHARED = Path("/dev/shm")
#: Bytes that must be free: a run leaves a quarter of it.
_ENOUGH = 4 << 30
_NAME = "wfctl-tests-"


def stay_in_memory() -> Callable[[], None] | None:
    """Let temporary files lie in memory from now on; return how to remove them.

    None if somebody chose a place with TMPDIR, or no place has room for a run.
    """
    if "TMPDIR" in os.environ or not _is_fit(SHARED):
        return None
    _remove_what_the_dead_left()
    place = Path(tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=SHARED))
    # Servers run as users of their own.
    place.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    return lambda: shutil.rmtree(place, ignore_errors=True)


def _is_fit(place: Path) -> bool:
    """Whether a run has room there, and may start the programs that it writes."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    # What is free there is so much less if the memory itself is taken.
    room = min(found.f_bavail * found.f_frsize, _available())
    return room >= _ENOUGH and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)


def _available() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    [found] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found) * 1024


def _remove_what_the_dead_left() -> None:
    """Remove the files of runs that were killed."""
    for left in SHARED.glob(f"{_NAME}*-*"):
        pid = left.name.removeprefix(_NAME).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
