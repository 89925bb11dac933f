"""Find and signal the processes of one game in /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: Environment variable that marks every process of a game; its value is the folder of the game.
MARK = "FAULT_GAME"


class GameProcess(NamedTuple):
    """A running process of a game, with its arguments."""

    number: int
    arguments: tuple[str, ...]

    def is_job(self, place: Path, step: str = "") -> bool:
        """Return whether the process runs step.py, for the step `step` if it is given."""
        script = str(place / "step.py")
        if script not in self.arguments:
            return False
        return not step or step in self.arguments[self.arguments.index(script) :]


def find_processes(place: Path) -> list[GameProcess]:
    """Return all running processes of the game in the folder `place`, without zombies."""
    found = (_read_process(folder, place) for folder in Path("/proc").iterdir())
    return [process for process in found if process is not None]


def send_signal(processes: Iterable[GameProcess], number: signal.Signals) -> int:
    """Send a signal to each process that still exists, and return the number of processes."""
    count = 0
    for process in processes:
        try:
            os.kill(process.number, number)
        except ProcessLookupError:
            continue
        count += 1
    return count


def kill_all_except_jobs(place: Path) -> None:
    """Kill every process of a game that does not run step.py, also those that start meanwhile."""
    while send_signal((p for p in find_processes(place) if not p.is_job(place)), signal.SIGKILL):
        time.sleep(0.05)


def kill_all(place: Path) -> None:
    """Kill every process of a game."""
    while send_signal(find_processes(place), signal.SIGKILL):
        time.sleep(0.05)


def wait_for_jobs(place: Path, limit: float) -> bool:
    """Wait until no process runs step.py, at most `limit` seconds; return whether none does."""
    deadline = time.monotonic() + limit
    while any(process.is_job(place) for process in find_processes(place)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _read_process(folder: Path, place: Path) -> GameProcess | None:
    """Return the process of a folder below /proc, or None if it does not belong to the game."""
    if not folder.name.isdigit() or int(folder.name) == os.getpid():
        return None
    try:
        arguments = (folder / "cmdline").read_bytes()
        environment = (folder / "environ").read_bytes()
    except OSError:  # the process has ended, or belongs to another user
        return None
    is_marked = f"{MARK}={place}\0".encode() in environment + b"\0"
    if not arguments or not (is_marked or f"{place}/".encode() in arguments):
        return None
    return GameProcess(int(folder.name), tuple(arguments.decode(errors="replace").split("\0")))
