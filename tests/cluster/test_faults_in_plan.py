"""A failure caused by the plan or its profile is fixed by an amended plan, not by a retry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.support import verdicts
from tests.cluster.test_slurm import prepared
from tests.crash.support import Workflow

pytestmark = pytest.mark.slow
#: Fault → resources of the profile, the verdict, and the text that names the cause.
FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "flag": (
        {"custom_flags": ["#SBATCH --tiem=1:00"]},
        "REJECTED",
        "failed (sbatch: unrecognized option '--tiem=1:00'",
    ),
    "partition": (
        {"queue_name": "nowhere"},
        "REJECTED",
        "failed (sbatch: error: invalid partition specified: nowhere",
    ),
    "gres": ({"custom_flags": ["#SBATCH --gres=gpu:4"]}, "REJECTED", "Invalid generic resource"),
    "time": ({"custom_flags": ["#SBATCH --time=long"]}, "REJECTED", "Invalid --time"),
    "wall time": ({"custom_flags": ["#SBATCH --time=0:01"]}, "LIMIT_EXCEEDED", "TIMEOUT"),
}
CASES = ["flag", *(pytest.param(name, marks=pytest.mark.long) for name in [*FAULTS][1:])]


def check_amended_plan_is_advised(workflow: Workflow, cause: str) -> None:
    """Check that `run` names the cause first and suggests an amended plan."""
    done = workflow.call("run")
    lines = done.stdout.splitlines()
    assert done.returncode == 6
    assert cause in lines[0]
    assert [line for line in lines if line.startswith("next: wfctl plan apply FILE --reason TEXT")]


def amend(workflow: Workflow, change: dict[str, Any]) -> None:
    """Apply the plan with other resources in its profile."""
    plan = json.loads((workflow.root / "plan.json").read_text())
    resources = {"number_node": 1, "cpu_per_node": 1, "group_size": 1, **change}
    plan["backend_profiles"]["far"]["resource_defaults"] = resources
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("plan", "apply", "plan.json", "--reason", "other resources")


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_fault_of_a_profile_is_fixed_by_an_amended_plan(workflow: Workflow, name: str) -> None:
    """A retry of the same plan fails again, and a retry of the amended plan succeeds."""
    resources, verdict, cause = FAULTS[name]
    command = "sleep 600" if verdict == "LIMIT_EXCEEDED" else "echo 1 > out.txt"
    prepared(workflow, f'[ -e "{workflow.root}/go" ] || {command} && echo 1 > out.txt', **resources)
    check_amended_plan_is_advised(workflow, cause)
    assert verdicts(workflow)[-1] == verdict
    if verdict == "REJECTED":
        workflow.succeed("stage", "retry", "stage-1", "--fix", "nothing")
        check_amended_plan_is_advised(workflow, cause)
    (workflow.root / "go").touch()
    amend(workflow, {})
    assert "next: wfctl stage retry stage-1" in workflow.succeed("status")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "other resources")
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.long
def test_exceeded_time_limit_suggests_an_amended_plan(workflow: Workflow) -> None:
    """A stage that exceeds its time limit without a scheduler gets the same suggestion."""
    stage = {
        "id": "stage-1",
        "name": "the stage-1",
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": "sleep 600; echo 1 > out.txt", "time_limit": 1},
    }
    workflow.init(stage)
    check_amended_plan_is_advised(workflow, "ended by its time limit of 1 s")
