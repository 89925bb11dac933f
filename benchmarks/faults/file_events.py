"""Count the file events of a driver, and kill the driver before a chosen event."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.faults.game import Contender, Game

#: Duration of the middle step of the chain in seconds; the file events do not depend on it.
MIDDLE = 1.0


def find_obstacle() -> str:
    """Return why this machine cannot count file events, or an empty string."""
    return "" if shutil.which("gcc") else "gcc is missing"


def prepare_kill(game: Game) -> None:
    """Let the driver of a game be killed before the file event `game.moment`."""
    events = game.place / "events"
    events.write_bytes(bytes(4))
    game.driver_variables |= {
        "LD_PRELOAD": str(build_library()),
        "FAULT_EVENTS": str(events),
        "FAULT_KILL_AT": str(game.moment),
    }
    game.driver_prefix = ["sh", "-c", 'FAULT_DRIVER=$$ exec "$@"', "driver"]


def wait_for_kill(game: Game) -> None:
    """Wait until the driver has ended, because it was killed or because its work is complete."""
    game.finish_driver()
    game.note_fault()


def choose_events(contender: Contender, work: str, number: int) -> list[int]:
    """Return at most `number` file events, evenly spaced over one run without a fault.

    Return all events if `number` is 0. Raises RuntimeError if the driver causes no event.
    """
    total = count_events(contender, work)
    if not total:
        raise RuntimeError(f"{contender.adapter.NAME}: expected file events, found none")
    if not number or number >= total:
        return list(range(1, total + 1))
    return [round((index + 0.5) * total / number) for index in range(number)]


def count_events(contender: Contender, work: str) -> int:
    """Run a work without a fault, and return the number of file events of its driver."""
    game = Game(contender, work, MIDDLE)
    try:
        prepare_kill(game)
        game.write_files()
        game.start_driver()
        game.finish_driver()
        return int.from_bytes((game.place / "events").read_bytes(), "little")
    finally:
        game.close()


@functools.cache
def build_library() -> Path:
    """Compile file_events.c, and return the path of the library."""
    library = Path(tempfile.mkdtemp(prefix="file-events-")) / "file_events.so"
    source = Path(__file__).with_suffix(".c")
    options = ["-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(["gcc", *options], check=True)
    return library
