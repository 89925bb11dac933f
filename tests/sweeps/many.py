"""Sweeps of thousands of tasks, some of which fail, for tests with kills."""

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
#: One task in a hundred fails.
FAILS = 'test "$((WFCTL_PARAM_T % 100))" -ne 0'


def many(workflow: Workflow, tasks: int, **parameters: Any) -> dict[str, Any]:
    """Return a sweep of the given number of tasks; the failures are tolerated."""
    map_ = {"grid": {"T": {"from": 1, "to": tasks}}}
    trace = workflow.root.parent / "trace"
    stage: dict[str, Any] = sweep(trace, map_, FAILS, tolerate=0.02, **parameters)
    return stage


def killed_on_the_way(workflow: Workflow, tasks: int, dice: random.Random, kills: int) -> None:
    """Run the sweep and kill some of its processes after each share of the tasks."""
    for kill in range(1, kills + 1):
        share = tasks * kill // (kills + 2)
        with ending(workflow.start("run")) as run:
            until(partial(is_as_far, workflow, share, run))
            time.sleep(dice.random())
            strike(workflow, dice.choice(VICTIMS))
            strike(workflow, Victim.ORCHESTRATOR)


def is_as_far(workflow: Workflow, share: int, run: Any) -> bool:
    """Return whether the given number of tasks ended, or the run ended."""
    return len([*ends(workflow.root.parent)]) >= share or run.poll() is not None


def every_task_is_accounted_for(workflow: Workflow, tasks: int) -> None:
    """Check that each good task is done, the others failed, and few were computed again."""
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
