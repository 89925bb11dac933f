"""The faults: what happens during a game, and which repetitions a fault justifies."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.faults.game import Adapter, Game
from benchmarks.faults.game_processes import find_processes, kill_all_except_jobs, send_signal

#: Seconds between the start of the middle step and the fault.
DELAY = 2.0


def prepare_nothing(game: Game) -> None:
    """Leave the game as it is."""


def allow_no_repetition(game: Game) -> frozenset[str]:
    """Return no steps, because the fault destroys no result."""
    return frozenset()


def find_no_obstacle() -> str:
    """Return an empty string, because every machine can play the fault."""
    return ""


def find_one_moment(adapter: Adapter, python: str) -> Sequence[int]:
    """Return one moment, which the fault waits for itself."""
    return (0,)


class Fault(NamedTuple):
    """One fault: its row in the table, and the function that plays it on a running game."""

    name: str  # on the command line
    title: str  # in the table
    act: Callable[[Game], None]
    prepare: Callable[[Game], None] = prepare_nothing  # before the files are written
    repeatable: Callable[[Game], frozenset[str]] = allow_no_repetition
    words: tuple[str, ...] = ()  # a line with one of these words informs the user
    is_edit: bool = False  # files change, so the user runs the tool once more
    works: tuple[str, ...] = ("chain",)
    middle: float = 15.0  # seconds of the middle step of the chain
    find_obstacle: Callable[[], str] = find_no_obstacle  # why this machine cannot play the fault
    find_moments: Callable[[Adapter, str], Sequence[int]] = find_one_moment


def kill_driver(game: Game) -> None:
    """Kill the driver while the middle step runs."""
    _wait_for_middle(game)
    if game.driver is not None:
        game.driver.kill()


def kill_all_but_job(game: Game) -> None:
    """Kill every process except the job itself."""
    _wait_for_middle(game)
    kill_all_except_jobs(game.place)


def kill_job(game: Game) -> None:
    """Kill the process of the middle step."""
    _wait_for_middle(game)
    _signal_job(game, signal.SIGKILL)


def _wait_for_middle(game: Game) -> None:
    """Wait until the middle step has run for a moment, and note the time of the fault."""
    game.wait_for_start(game.work.focus)
    time.sleep(min(DELAY, game.work.seconds.get(game.work.focus, game.work.default) / 2))
    game.note_fault()


def _signal_job(game: Game, number: signal.Signals) -> None:
    jobs = [p for p in find_processes(game.place) if p.is_job(game.place, game.work.focus)]
    send_signal(jobs, number)


EVERYWHERE = ("chain", "sweep", "rounds")

FAULTS = (
    Fault("driver-killed", "driver killed", kill_driver, works=EVERYWHERE),
    Fault(
        "all-but-job-killed", "everything but the job killed", kill_all_but_job, works=EVERYWHERE
    ),
    Fault("job-killed", "job killed", kill_job, works=EVERYWHERE),
)
