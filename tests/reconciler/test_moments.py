"""The monitor killed at every moment of an attempt's life; the job is brought home all the same."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Mode
from reconciler.errors import AlreadyMonitored
from reconciler.verdict.table import Action, Verdict
from tests.reconciler.support import SHORT, Stage, judged, kill_monitor

#: Seconds after the launch: upload, submission, recovery file, running, collection, markers.
MOMENTS = [step / 5 for step in range(18)] + [0.2 + step / 50 for step in range(10)]
FEW = [0.2, 1.0, 2.4]


def settle(stage: Stage, attempt: AttemptPaths) -> Verdict:
    """Do what each verdict says until one is final."""
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
    """Run a monitor to its end, unless one is at work."""
    with suppress(AlreadyMonitored):
        stage.runner().launch(attempt, Mode.SETSID)
    stage.runner().wait(attempt, 60)


def survive(stage: Stage, moment: float) -> None:
    """Kill the monitor at a moment, settle, and look at what came of it."""
    attempt = stage.prepare(SHORT)
    stage.runner().launch(attempt, Mode.SETSID)
    time.sleep(moment)
    kill_monitor(attempt)
    found = settle(stage, attempt)
    assert (found.action, stage.runs(attempt)) == (Action.SUCCEEDED, 1), found


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("moment", FEW)
def test_a_monitor_killed_early_or_late_loses_nothing(stage: Stage, moment: float) -> None:
    """Killed while submitting, running or collecting: one run, and its result."""
    survive(stage, moment)


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_monitor_killed_at_any_moment_loses_nothing(stage: Stage, moment: float) -> None:
    """Killed at each fifth of a second, and closer while it submits: one run, and its result."""
    survive(stage, moment)
