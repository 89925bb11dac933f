"""Faults of processes: killed, frozen, started twice, or with an unusual behaviour."""

from __future__ import annotations

import signal
import time

from benchmarks.faults.game import Game
from benchmarks.faults.game_processes import (
    collect_shells,
    find_processes,
    kill_all,
    kill_all_except_jobs,
    send_signal,
)

#: Maximum time in seconds between the start of the middle step and the fault.
DELAY = 2.0

#: Time in seconds for which a job is frozen.
FREEZE = 20.0


def kill_driver(game: Game) -> None:
    """Kill the driver while the middle step runs."""
    wait_for_middle(game)
    if game.driver is not None:
        game.driver.kill()


def kill_all_but_jobs(game: Game) -> None:
    """Kill every process except the jobs and the shells that run their commands."""
    game.wait_for_start(game.work.focus)
    shells = collect_shells(game.place, _find_delay(game))
    game.note_fault()
    kill_all_except_jobs(game.place, shells)


def kill_all_but_programs(game: Game) -> None:
    """Kill every process except the jobs themselves; their shells are killed, too."""
    wait_for_middle(game)
    kill_all_except_jobs(game.place, frozenset())


def kill_everything(game: Game) -> None:
    """Kill every process, as a power failure does."""
    wait_for_middle(game)
    kill_all(game.place)


def kill_job(game: Game) -> None:
    """Kill the process of the middle step."""
    wait_for_middle(game)
    _signal_job(game, signal.SIGKILL)


def freeze_job(game: Game) -> None:
    """Freeze the process of the middle step for a while."""
    wait_for_middle(game)
    _signal_job(game, signal.SIGSTOP)
    time.sleep(FREEZE)
    _signal_job(game, signal.SIGCONT)


def start_second_driver(game: Game) -> None:
    """Start a second driver while the middle step runs, and wait until it has ended."""
    wait_for_middle(game)
    first = game.driver
    game.start_driver()
    game.finish_driver()
    game.driver = first


def let_job_daemonise(game: Game) -> None:
    """Let the command of the middle step exit, while its child holds the output open."""
    game.behaviours[game.work.focus] = "daemon"


def let_job_daemonise_and_close(game: Game) -> None:
    """Let the command of the middle step exit, while its child has closed the output."""
    game.behaviours[game.work.focus] = "closing daemon"


def let_job_kill_group(game: Game) -> None:
    """Let the middle step kill its process group when it runs for the first time."""
    game.behaviours[game.work.focus] = "kill group"


def wait_for_middle(game: Game) -> None:
    """Wait until the middle step has run for a moment, and note the time of the fault."""
    game.wait_for_start(game.work.focus)
    time.sleep(_find_delay(game))
    game.note_fault()


def _find_delay(game: Game) -> float:
    """Return the seconds between the start of the middle step and the fault."""
    return min(DELAY, game.work.seconds.get(game.work.focus, game.work.default) / 2)


def _signal_job(game: Game, number: signal.Signals) -> None:
    jobs = [p for p in find_processes(game.place) if p.is_job(game.place, game.work.focus)]
    send_signal(jobs, number)
