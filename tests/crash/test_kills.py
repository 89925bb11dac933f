"""Real runs with killed processes: every stage completes, and no command runs twice."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.crash.aftermath import check_chain, recover
from tests.crash.moments import WINDOWS, Moment, after, awaited
from tests.crash.notes import check_notes, noting
from tests.crash.scene import telling
from tests.crash.support import PATIENCE, Workflow, chain, ending
from tests.crash.victims import Victim, strike

#: Approximate duration in seconds of a run of the three stages. Kills happen within this time.
_WHOLE = 5.5
_OUTLIVED = (Victim.TMUX_SERVER, Victim.MONITOR, Victim.JOB)
_LOSSES = (Victim.EVERYTHING, Victim.JOB)
#: Number of random moments in `make test`.
FEW = 8
#: One third of all combinations of windows and victims.
THIRD = [(w, v) for i, w in enumerate(WINDOWS) for j, v in enumerate(Victim) if (i + j) % 3 == 0]


def every_fourth(values: Iterable[object]) -> list[Any]:
    """Return each value for `parametrize`; all except every fourth are marked as long."""
    return [
        pytest.param(value, marks=[pytest.mark.long] * bool(place % 4))
        for place, value in enumerate(values)
    ]


def survive(workflow: Workflow, moment: Moment, victim: Victim) -> bool:
    """Start a run and kill processes at the moment; return False if it ended before."""
    with ending(workflow.start("run")) as run:
        came = awaited(moment, workflow, run)
        strike(workflow, victim)
        if victim in _OUTLIVED:
            workflow.succeed("rehydrate")
            run.wait(PATIENCE)
            assert run.returncode == 0, workflow.said()
    return came


def check_round(workflow: Workflow, victim: Victim, *moments: Moment) -> bool:
    """Kill at each moment, recover, and check everything; return whether all moments came."""
    with telling(workflow):
        with noting(workflow) as acknowledged:
            came = [survive(workflow, moment, victim) for moment in moments]
            recover(workflow)
        check_notes(workflow, acknowledged)
        check_chain(workflow, lost=victim in _LOSSES)
    return all(came)


def dice(number: int) -> random.Random:
    """Return a random generator for a round. WFCTL_CRASH_SEED repeats an earlier run."""
    seed = os.environ.get("WFCTL_CRASH_SEED") or str(time.time_ns())
    print(f"WFCTL_CRASH_SEED={seed}")
    return random.Random(f"{seed} {number}")


def strike_anywhere(workflow: Workflow, number: int) -> None:
    """Kill the next kind of victim at a random time of a run, and check the recovery."""
    moment = dice(number).uniform(0, _WHOLE)
    victim = list(Victim)[number % len(Victim)]
    print(f"{victim} at {moment:.3f} s")
    workflow.init(*chain())
    check_round(workflow, victim, after(moment))


def strike_session(workflow: Workflow, window: str) -> None:
    """Kill orchestrator, tmux server and monitor together, between two writes in order."""
    workflow.init(*chain())
    assert check_round(workflow, Victim.SESSION, WINDOWS[window]), "the moment never came"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", every_fourth(range(FEW)))
def test_kill_at_a_random_moment_loses_nothing(workflow: Workflow, number: int) -> None:
    """After a kill at a random time, all stages complete and no command runs twice."""
    strike_anywhere(workflow, number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(FEW, 20))
def test_kill_at_many_random_moments_loses_nothing(workflow: Workflow, number: int) -> None:
    """The previous test at further random times, as a long test."""
    strike_anywhere(workflow, number)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("window", every_fourth(list(WINDOWS)[::2]))
def test_session_killed_in_a_narrow_window_loses_nothing(workflow: Workflow, window: str) -> None:
    """After a kill between two writes, all stages complete and no command runs twice."""
    strike_session(workflow, window)


@pytest.mark.long
@pytest.mark.parametrize("window", list(WINDOWS)[1::2])
def test_session_killed_in_any_narrow_window_loses_nothing(workflow: Workflow, window: str) -> None:
    """The previous test with the windows that it leaves out, as a long test."""
    strike_session(workflow, window)


@pytest.mark.long
@pytest.mark.parametrize("number", range(8))
def test_repeated_kills_lose_nothing(workflow: Workflow, number: int) -> None:
    """After up to three kills, some of them during the recovery, all stages complete."""
    fall = dice(number)
    victim = fall.choice(list(Victim))
    workflow.init(*chain())
    blows = [fall.uniform(0, _WHOLE / 2) for _ in range(fall.randint(1, 3))]
    if victim in _LOSSES:
        # By the rules of wfctl, a job that is killed twice counts as failed, so jobs are killed
        # only once.
        blows = blows[:1]
    print(f"{victim} at {blows}")
    check_round(workflow, victim, *map(after, blows))


@pytest.mark.long
@pytest.mark.parametrize(("window", "victim"), THIRD)
def test_any_victim_in_a_narrow_window_loses_nothing(
    workflow: Workflow, window: str, victim: Victim
) -> None:
    """After a kill of any kind of victim in every third window, all stages complete."""
    workflow.init(*chain())
    assert check_round(workflow, victim, WINDOWS[window]), "the moment never came"
