"""Find and signal the processes of one game in /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

#: Environment variable that marks every process of a game; its value is the folder of the game.
MARK = "FAULT_GAME"

#: Programs that run the command of a step.
SHELLS = ("sh", "bash", "dash")


class GameProcess(NamedTuple):
    """A running process of a game, with its arguments."""

    number: int
    parent: int
    arguments: tuple[str, ...]

    @property
    def is_shell(self) -> bool:
        """Return whether the process is a shell."""
        return Path(self.arguments[0]).name in SHELLS

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


def kill_all_except_jobs(place: Path, shells: frozenset[int]) -> None:
    """Kill every process of a game that does not belong to a job, also those that start meanwhile.

    The shells with the numbers ``shells`` and all processes below them belong to the jobs.
    """
    while True:
        processes = find_processes(place)
        spared = find_descendants(processes, shells)
        others = [p for p in processes if not p.is_job(place) and p.number not in spared]
        if not send_signal(others, signal.SIGKILL):
            return
        time.sleep(0.05)


def collect_shells(place: Path, seconds: float) -> frozenset[int]:
    """Return the numbers of all shells that run commands of steps during the next seconds.

    A shell runs no step.py for a moment after each step, so one inspection is not enough.
    """
    deadline = time.monotonic() + seconds
    found: frozenset[int] = frozenset()
    while time.monotonic() < deadline:
        found |= find_shells(place, find_processes(place))
        time.sleep(0.05)
    return found


def find_descendants(processes: Sequence[GameProcess], numbers: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the given processes and of all processes below them."""
    found = numbers | {p.number for p in processes if p.parent in numbers}
    return found if found == numbers else find_descendants(processes, found)


def find_shells(place: Path, processes: Iterable[GameProcess]) -> frozenset[int]:
    """Return the numbers of the shells above each step.py, up to the first other process."""
    by_number = {process.number: process for process in processes}
    found: set[int] = set()
    for process in by_number.values():
        parent = by_number.get(process.parent) if process.is_job(place) else None
        while parent is not None and parent.is_shell:
            found.add(parent.number)
            parent = by_number.get(parent.parent)
    return frozenset(found)


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
        parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:  # the process has ended, or belongs to another user
        return None
    is_marked = f"{MARK}={place}\0".encode() in environment + b"\0"
    if not arguments or not (is_marked or f"{place}/".encode() in arguments):
        return None
    return GameProcess(
        int(folder.name), parent, tuple(arguments.decode(errors="replace").split("\0"))
    )
