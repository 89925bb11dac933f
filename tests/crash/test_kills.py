"""A real run whose session is killed: every stage completes, and no command runs twice."""

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

#: Seconds that the run of a chain takes, about; a blow falls anywhere in it.
_WHOLE = 5.5
_OUTLIVED = (Victim.TMUX_SERVER, Victim.MONITOR, Victim.JOB)
_LOSSES = (Victim.EVERYTHING, Victim.JOB)
#: Rounds of a random moment in `make test`.
FEW = 8
#: One field in three of a board of windows and victims.
THIRD = [(w, v) for i, w in enumerate(WINDOWS) for j, v in enumerate(Victim) if (i + j) % 3 == 0]


def every_fourth(values: Iterable[object]) -> list[Any]:
    """Return each value for `parametrize`; the second, fourth and so on are long."""
    return [
        pytest.param(value, marks=[pytest.mark.long] * bool(place % 4))
        for place, value in enumerate(values)
    ]


def survive(workflow: Workflow, moment: Moment, victim: Victim) -> bool:
    """Run, strike once, come back; return whether the moment came before the run had ended."""
    with ending(workflow.start("run")) as run:
        came = awaited(moment, workflow, run)
        strike(workflow, victim)
        if victim in _OUTLIVED:
            workflow.succeed("rehydrate")
            run.wait(PATIENCE)
            assert run.returncode == 0, workflow.said()
    return came


def check_round(workflow: Workflow, victim: Victim, *moments: Moment) -> bool:
    """Strike at each moment, recover, and check everything; return whether all moments came."""
    with telling(workflow):
        with noting(workflow) as acknowledged:
            came = [survive(workflow, moment, victim) for moment in moments]
            recover(workflow)
        check_notes(workflow, acknowledged)
        check_chain(workflow, lost=victim in _LOSSES)
    return all(came)


def dice(number: int) -> random.Random:
    """Return the dice of a round; WFCTL_CRASH_SEED makes them fall as they fell before."""
    seed = os.environ.get("WFCTL_CRASH_SEED") or str(time.time_ns())
    print(f"WFCTL_CRASH_SEED={seed}")
    return random.Random(f"{seed} {number}")


def strike_anywhere(workflow: Workflow, number: int) -> None:
    """One blow anywhere in the run, at each kind of victim in turn."""
    moment = dice(number).uniform(0, _WHOLE)
    victim = list(Victim)[number % len(Victim)]
    print(f"{victim} at {moment:.3f} s")
    workflow.init(*chain())
    check_round(workflow, victim, after(moment))


def strike_session(workflow: Workflow, window: str) -> None:
    """Orchestrator, tmux server and monitor die at once where the order of two writes matters."""
    workflow.init(*chain())
    assert check_round(workflow, Victim.SESSION, WINDOWS[window]), "the moment never came"


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("number", every_fourth(range(FEW)))
def test_a_session_killed_at_a_random_moment_loses_nothing(workflow: Workflow, number: int) -> None:
    """Each kind of victim at least once, with those that are long."""
    strike_anywhere(workflow, number)


@pytest.mark.long
@pytest.mark.parametrize("number", range(FEW, 20))
def test_a_session_killed_at_any_moment_loses_nothing(workflow: Workflow, number: int) -> None:
    """The rest of twenty."""
    strike_anywhere(workflow, number)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("window", every_fourth(list(WINDOWS)[::2]))
def test_a_session_killed_in_a_narrow_window_loses_nothing(workflow: Workflow, window: str) -> None:
    """Every eighth window; the rest is in the long matrices."""
    strike_session(workflow, window)


@pytest.mark.long
@pytest.mark.parametrize("window", list(WINDOWS)[1::2])
def test_a_session_killed_in_any_narrow_window_loses_nothing(
    workflow: Workflow, window: str
) -> None:
    """Those that `make test` leaves out."""
    strike_session(workflow, window)


@pytest.mark.long
@pytest.mark.parametrize("number", range(8))
def test_a_session_killed_again_and_again_loses_nothing(workflow: Workflow, number: int) -> None:
    """Up to three blows, the later ones while the first is being recovered from."""
    fall = dice(number)
    victim = fall.choice(list(Victim))
    workflow.init(*chain())
    blows = [fall.uniform(0, _WHOLE / 2) for _ in range(fall.randint(1, 3))]
    if victim in _LOSSES:
        # A job that is killed twice counts as failed, by the rules.
        blows = blows[:1]
    print(f"{victim} at {blows}")
    check_round(workflow, victim, *map(after, blows))


@pytest.mark.long
@pytest.mark.parametrize(("window", "victim"), THIRD)
def test_a_victim_in_a_narrow_window_loses_nothing(
    workflow: Workflow, window: str, victim: Victim
) -> None:
    """Each kind of victim in every third window; the kill matrix has its own moments."""
    workflow.init(*chain())
    assert check_round(workflow, victim, WINDOWS[window]), "the moment never came"
