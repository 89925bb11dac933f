"""Faults of the host: a full disk, a clock that goes back, another host name."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.faults.game import Game
from benchmarks.faults.preload import build_library
from benchmarks.faults.process_faults import wait_for_middle

#: Size of the file system that is filled, in MB, and the time in seconds for which it stays full.
DISK_SIZE, FULL_TIME = 64, 30.0


def needs_root() -> str:
    """Return why an ordinary user cannot play the fault, or an empty string for root."""
    return "" if os.geteuid() == 0 else "needs root"


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


def prepare_clock(game: Game) -> None:
    """Load a library into all processes of the game, which can set their clock back."""
    clock = game.place / "clock"
    clock.write_bytes(bytes(8))
    game.variables |= {"LD_PRELOAD": build_library("clock_back"), "FAULT_CLOCK": str(clock)}


def set_clock_back(game: Game) -> None:
    """Set the clock back by two hours while the middle step runs."""
    wait_for_middle(game)
    with (game.place / "clock").open("r+b") as clock:
        clock.write(int(time.time()).to_bytes(8, sys.byteorder))


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
