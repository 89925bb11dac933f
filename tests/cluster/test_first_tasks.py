"""The first tasks of a sweep on Slurm run in a job of their own, before all other jobs."""

from __future__ import annotations

import json

import pytest

from tests.cluster.support import write_machine
from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.sweeps.support import ends, sweep

pytestmark = [pytest.mark.slow, pytest.mark.long]
HERE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
KEYS = [f"T={n}" for n in range(1, 6)]


def prepared(workflow: Workflow, command: str) -> Workflow:
    """Create a workflow with a sweep of five tasks, two of which run in one job."""
    profile = {
        "type": "remote",
        "batch_type": "Slurm",
        "config_path": write_machine(workflow, HERE),
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 2},
    }
    map_ = {"grid": {"T": {"from": 1, "to": 5}}, "first": 1}
    stage = sweep(workflow.root.parent / "trace", map_, command)
    backend = {"default_backend": "cluster", "backend_profiles": {"cluster": profile}}
    plan = {"workflow_id": "w-far", "stages": [stage], **backend}
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")
    return workflow


def job_counts(workflow: Workflow) -> list[int]:
    """Return the number of jobs of each attempt that started jobs.

    Each started job leaves a folder. The event `stage.launched` may be recorded before the last job
    is submitted.
    """
    attempts = sorted((workflow.root / "stage-1/.attempts").glob("att-*"))
    counts = (len([*attempt.glob("job-*.started")]) for attempt in attempts)
    return [count for count in counts if count > 0]


@pytest.mark.parametrize("victim", [None, Victim.ORCHESTRATOR, Victim.EVERYTHING])
def test_other_jobs_start_after_the_first_job(workflow: Workflow, victim: Victim | None) -> None:
    """A kill while the first job runs changes nothing: the next run submits the other jobs."""
    prepared(workflow, "sleep 1")
    if victim is not None:
        with ending(workflow.start("run")) as run:
            until(lambda: workflow.committed("stage.launched") >= 1 or run.poll() is not None)
            strike(workflow, victim)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert (job_counts(workflow)[0], job_counts(workflow)[-1]) == (1, 2)
    trace = [*ends(workflow.root.parent)]
    assert (trace[0], sorted({*trace})) == (KEYS[0], KEYS)
    workflow.succeed("fsck", "--protocol")


def test_no_other_job_starts_after_the_first_job_failed(workflow: Workflow) -> None:
    """Only one job was submitted."""
    prepared(workflow, "false")
    assert workflow.call("run").returncode == 6
    assert job_counts(workflow) == [1]
    error = workflow.stage("stage-1")["last_error"]
    assert error.endswith("the first task failed, so 4 tasks were not started")
