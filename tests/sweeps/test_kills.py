"""If processes of a sweep are killed at any time, each task still ends."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.rounds import rounds
from tests.sweeps.support import ends, sweep

pytestmark = [pytest.mark.slow]

TASKS = 40
VICTIMS = (Victim.EVERYTHING, Victim.JOB, Victim.MONITOR, Victim.ORCHESTRATOR, Victim.SESSION)


@pytest.mark.parametrize("seed", rounds(range(40), few=3))
def test_finished_tasks_survive_kills(workflow: Workflow, seed: int) -> None:
    """Whatever process of the sweep is killed, only unfinished tasks run again."""
    dice = random.Random(seed)
    outside = workflow.root.parent
    map_ = {"grid": {"T": {"from": 1, "to": TASKS}}}
    stage = sweep(outside / "trace", map_, "sleep 0.05", at_once=4)
    # A task whose result folder exists has ended. The trace file lists the tasks that ended.
    workflow.init(stage)
    with ending(workflow.start("run")) as run:
        until(lambda: len([*ends(outside)]) >= 1 or run.poll() is not None)
        time.sleep(dice.random())
        strike(workflow, dice.choice(VICTIMS))
        if run.poll() is None:
            time.sleep(0.5)
        strike(workflow, Victim.EVERYTHING)
    done = {path.name for path in (workflow.root / "stage-1/tasks").glob("T=*")}
    before = Counter(ends(outside))
    workflow.succeed("run")
    after = Counter(ends(outside))
    assert {key for key, count in after.items() if count > before[key]}.isdisjoint(done)
    assert set(after) == {f"T={n}" for n in range(1, TASKS + 1)}
    assert workflow.stage("stage-1")["status"] == "completed"
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")
