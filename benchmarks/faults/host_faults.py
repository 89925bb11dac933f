"""Faults of the host: a full disk, a clock that goes back, another host name."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.faults.game import Game
from benchmarks.faults.process_faults import wait_for_middle

#: Size of the file system that is filled, in MB, and the time in seconds for which it stays full.
DISK_SIZE, FULL_TIME = 64, 30.0

#: Time in seconds by which the clock goes back.
CLOCK_STEP = 7200


def needs_root() -> str:
    """Return why an ordinary user cannot play the fault, or an empty string for root."""
    return "" if os.geteuid() == 0 else "needs root"


def needs_libfaketime() -> str:
    """Return that libfaketime is missing, or an empty string."""
    return "" if _find_libfaketime() else "libfaketime is missing"


def mount_small_disk(game: Game) -> None:
    """Mount a small file system on the folder of the game."""
    game.folder.mkdir()
    size = f"size={DISK_SIZE}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "game", str(game.folder)], check=True)
    game.cleanups.append(lambda: subprocess.run(["umount", "-l", str(game.folder)], check=True))


def fill_disk(game: Game) -> None:
    """Fill the disk while the middle step runs, and make room when the driver has ended.

    The disk stays full for at most FULL_TIME seconds.
    """
    wait_for_middle(game)
    filler = game.folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass  # the disk is full, as required
    deadline = time.monotonic() + FULL_TIME
    while game.driver is not None and game.driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    filler.unlink()


def start_with_early_clock(game: Game) -> None:
    """Let all processes of the game read a clock that is two hours ahead."""
    (game.place / "clock").write_text(f"+{CLOCK_STEP}\n")
    game.variables |= {
        "LD_PRELOAD": str(_find_libfaketime()),
        "FAKETIME_TIMESTAMP_FILE": str(game.place / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def set_clock_back(game: Game) -> None:
    """Set the clock back while the middle step runs; the times of existing files do not change.

    libfaketime shifts the times of files as it shifts the clock. Without the shift, existing files
    would get younger, so they get the times that they had before.
    """
    wait_for_middle(game)
    (game.place / "clock").write_text("+0\n")
    for path in game.folder.rglob("*"):
        times = path.lstat()
        later = (times.st_atime + CLOCK_STEP, times.st_mtime + CLOCK_STEP)
        os.utime(path, later, follow_symlinks=False)


def name_host(game: Game) -> None:
    """Run the commands of a game on a host with another name."""
    game.prefix = _under_name("first-host")


def rename_host(game: Game) -> None:
    """Kill the driver while the middle step runs, and give the host another name."""
    wait_for_middle(game)
    if game.driver is not None:
        game.driver.kill()
    game.prefix = _under_name("second-host")


def _under_name(name: str) -> list[str]:
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]


def _find_libfaketime() -> Path | None:
    """Return the path of the library in the folders where Debian and Fedora install it."""
    if not shutil.which("faketime"):
        return None
    found = sorted(Path("/usr").glob("lib*/**/faketime/libfaketime.so.1"))
    return found[0] if found else None
