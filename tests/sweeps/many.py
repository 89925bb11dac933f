"""Sweeps of thousands of tasks, some of which fail, for tests that kill processes."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from functools import partial
from typing import Any

from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.sweeps.support import ends, sweep

VICTIMS = (Victim.EVERYTHING, Victim.JOB, Victim.MONITOR, Victim.ORCHESTRATOR, Victim.SESSION)
#: Shell command that fails for every hundredth task.
FAILS = 'test "$((WFCTL_PARAM_T % 100))" -ne 0'


def many(workflow: Workflow, tasks: int, **parameters: Any) -> dict[str, Any]:
    """Return a sweep with the given number of tasks, which tolerates the failed tasks."""
    map_ = {"grid": {"T": {"from": 1, "to": tasks}}}
    trace = workflow.root.parent / "trace"
    stage: dict[str, Any] = sweep(trace, map_, FAILS, tolerate=0.02, **parameters)
    return stage


def killed_on_the_way(workflow: Workflow, tasks: int, dice: random.Random, kills: int) -> None:
    """Run the sweep several times, and each time kill some of its processes.

    A kill follows when a further share of the tasks has ended.
    """
    for kill in range(1, kills + 1):
        share = tasks * kill // (kills + 2)
        with ending(workflow.start("run")) as run:
            until(partial(is_as_far, workflow, share, run))
            time.sleep(dice.random())
            strike(workflow, dice.choice(VICTIMS))
            strike(workflow, Victim.ORCHESTRATOR)


def is_as_far(workflow: Workflow, share: int, run: Any) -> bool:
    """Return whether the given number of tasks has ended, or the run itself."""
    return len([*ends(workflow.root.parent)]) >= share or run.poll() is not None


def every_task_is_accounted_for(workflow: Workflow, tasks: int) -> None:
    """Check that every hundredth task failed, the others are done, and few ran twice."""
    told = json.loads(workflow.succeed("-o", "json", "tasks", "stage-1", "-n", "1"))["data"]
    assert (told["counts"]["done"], told["counts"]["failed"]) == (
        tasks - tasks // 100,
        tasks // 100,
    )
    assert workflow.stage("stage-1")["status"] == "completed"
    times = Counter(ends(workflow.root.parent))
    assert set(times) == {f"T={n}" for n in range(1, tasks + 1) if n % 100}
    assert sum(times.values()) - len(times) < 50
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")
