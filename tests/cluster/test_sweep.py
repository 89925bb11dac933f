"""The Ising example on Slurm with kills: each task completes once."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tomllib
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.support import init, write_machine
from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.examples.test_ising import EXAMPLE, SMALL
from tests.sweeps.many import every_task_is_accounted_for, killed_on_the_way, many

HERE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}


@pytest.fixture
def sweep(workflow: Workflow) -> Workflow:
    """Create a workflow from the small plan, with its stages on Slurm, two jobs at a time."""
    shutil.copytree(EXAMPLE, workflow.root, dirs_exist_ok=True)
    profile = {
        "type": "remote",
        "batch_type": "Slurm",
        "config_path": write_machine(workflow, HERE),
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 24},
    }
    plan = tomllib.loads((EXAMPLE / "small.toml").read_text())
    plan |= {"default_backend": "cluster", "backend_profiles": {"cluster": profile}}
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")
    return workflow


def done(root: Path) -> int:
    """Return the number of completed tasks."""
    return len(list((root / "stage-1/tasks").glob("*seed=*")))


def is_as_far(root: Path, share: int, run: subprocess.Popen[str]) -> bool:
    """Return whether the given number of tasks is done or the run has ended."""
    return done(root) >= share or run.poll() is not None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("victim", [Victim.ORCHESTRATOR, Victim.MONITOR], ids=lambda one: one.value)
def test_sweep_on_slurm_killed_twice_runs_each_task_once(sweep: Workflow, victim: Victim) -> None:
    """After two kills, the result equals that of an undisturbed run."""
    for share in (1, 12):
        with ending(sweep.start("run")) as run:
            until(partial(is_as_far, sweep.root, share, run))
            strike(sweep, victim)
            strike(sweep, Victim.ORCHESTRATOR)
    sweep.succeed("run")
    told = json.loads(sweep.succeed("-o", "json", "tasks", "stage-1", "-n", "0"))["data"]
    assert told["counts"]["done"] == 48
    assert {one["attempts"] for one in told["tasks"]} == {1}
    found = json.loads((sweep.root / "stage-2/tc.json").read_text())
    assert found["tc"] == pytest.approx(SMALL)
    sweep.succeed("fsck", "--protocol")
    assert json.loads(sweep.succeed("-o", "json", "status"))["_meta"]["version"] < 60


@pytest.mark.long
@pytest.mark.slow
def test_two_thousand_tasks_on_slurm_survive_kills(workflow: Workflow) -> None:
    """After kills, good tasks are done, failing tasks are named, and few run again."""
    init(workflow, write_machine(workflow, HERE), many(workflow, 2_000), group_size=500)
    killed_on_the_way(workflow, 2_000, random.Random(0), kills=3)
    workflow.succeed("run")
    every_task_is_accounted_for(workflow, 2_000)
