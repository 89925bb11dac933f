"""The monitor is killed at any time of an attempt, and the job still delivers its result."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Mode
from reconciler.errors import AlreadyMonitored
from reconciler.verdict.table import Action, Verdict
from tests.reconciler.support import SHORT, Stage, judged, kill_monitor

#: Times in seconds after the launch at which the monitor is killed. They cover the upload, the
#: submission, the collection of results and the writing of markers.
MOMENTS = [step / 5 for step in range(18)] + [0.2 + step / 50 for step in range(10)]
FEW = [0.2, 1.0, 2.4]


def settle(stage: Stage, attempt: AttemptPaths) -> Verdict:
    """Act on the verdicts of an attempt until a verdict is final, and return it."""
    found = judged(attempt)
    for _ in range(20):
        if found.action is Action.WAIT:
            stage.runner().wait(attempt, 60)
        elif found.action in (Action.ATTACH, Action.LAUNCH):
            attach(stage, attempt)
        else:
            return found
        found = judged(attempt)
    raise AssertionError(f"never settled: {found}")


def attach(stage: Stage, attempt: AttemptPaths) -> None:
    """Start a monitor unless one is already running, and wait for the end of the monitor."""
    with suppress(AlreadyMonitored):
        stage.runner().launch(attempt, Mode.SETSID)
    stage.runner().wait(attempt, 60)


def survive(stage: Stage, moment: float) -> None:
    """Kill the monitor after this many seconds, and check that the job succeeds once."""
    attempt = stage.prepare(SHORT)
    stage.runner().launch(attempt, Mode.SETSID)
    time.sleep(moment)
    kill_monitor(attempt)
    found = settle(stage, attempt)
    assert (found.action, stage.runs(attempt)) == (Action.SUCCEEDED, 1), found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("moment", FEW)
def test_monitor_killed_at_three_times_loses_nothing(stage: Stage, moment: float) -> None:
    """The monitor is killed during submission, run or collection, and the job runs once."""
    survive(stage, moment)


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_monitor_killed_at_any_time_loses_nothing(stage: Stage, moment: float) -> None:
    """The monitor is killed at many times of an attempt, and the job runs once."""
    survive(stage, moment)
