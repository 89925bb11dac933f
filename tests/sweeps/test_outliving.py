"""If a task's command outlives its shells, wfctl still judges its results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.outliving import SOLVER, noted, shells_above, solvers
from tests.crash.support import Workflow, until
from tests.crash.victims import kill
from tests.sweeps.support import sweep

pytestmark = pytest.mark.slow


def every(shells: list[int]) -> list[int]:
    """Return all given shells, so that the test kills all of them."""
    return shells


def inner(shells: list[int]) -> list[int]:
    """Return only the shells of the task; the job's shells then report exit code 137."""
    return [one for one in shells if "/tasks/" in Path(f"/proc/{one}/cmdline").read_text()]


def begin(
    workflow: Workflow,
    which: Callable[[list[int]], list[int]] = every,
    tasks: int = 1,
    other: str = "true",
    **parameters: Any,
) -> list[int]:
    """Dispatch a sweep, kill the shells of its first task, and return the solvers.

    A solver is the command of the first task and continues to run. ``other`` is the command of all
    further tasks, which wait for the first task.
    """
    outside = workflow.root.parent
    (outside / "solver.py").write_text(SOLVER)
    points = {"points": [{"T": number} for number in range(1, tasks + 1)]}
    stage = sweep(outside / "trace", points, at_once=1, **parameters)
    solver = f'"{sys.executable}" "{outside}/solver.py" "{outside}"'
    stage["parameters"]["command"] = f"if [ $WFCTL_PARAM_T -gt 1 ]; then {other}; else {solver}; fi"
    stage["parameters"] |= {"task_outputs": ["out.txt"], "metrics": {}}
    workflow.init(stage)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: solvers(workflow))
    found = solvers(workflow)
    shells = which(shells_above(found[0]))
    assert shells
    kill(shells)
    until(lambda: not any(start_ticks(shell) for shell in shells))
    until(lambda: noted(workflow))
    return found


def through(workflow: Workflow, found: list[int]) -> None:
    """Let the solver processes end, and wait for their end."""
    (workflow.root.parent / "go").touch()
    until(lambda: all(start_ticks(one) is None for one in found))


@pytest.mark.long
@pytest.mark.parametrize("which", [every, inner])
def test_verified_task_is_not_computed_again(
    workflow: Workflow, which: Callable[[list[int]], list[int]]
) -> None:
    """wfctl verifies the results of the task without shells and accepts them."""
    found = begin(workflow, which, task_verify="grep -qx 1 out.txt")
    through(workflow, found)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == found
    assert (workflow.root / "stage-1/tasks/T=1/out.txt").read_text() == "1\n"


@pytest.mark.long
def test_person_judges_a_task_without_verify_command(workflow: Workflow) -> None:
    """The verdict names the task's folder, and `stage compute` lets a person accept it."""
    found = begin(workflow)
    through(workflow, found)
    assert workflow.call("run").returncode == 6
    newest = workflow.events("attempt.observed")[-1]["data"]
    assert (newest["verdict"], newest["action"]) == ("UNTOLD", "unknown")
    assert "tasks/T=1" in newest["reason"]
    workflow.succeed("stage", "compute", "stage-1")
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == found


def unwritten(workflow: Workflow, found: list[int]) -> None:
    """Let the solver end without writing its output, and run the workflow."""
    broken = workflow.root.parent / "broken"
    broken.touch()
    through(workflow, found)
    broken.unlink()
    workflow.succeed("run")


def refused(workflow: Workflow, found: list[int]) -> None:
    """Let the solver succeed, record the stage as failed anyway, and retry it."""
    through(workflow, found)
    assert workflow.call("run").returncode == 6
    workflow.succeed("stage", "fail", "stage-1", "--error", "no good")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "once more")
    workflow.succeed("run")


@pytest.mark.long
@pytest.mark.parametrize("end", [unwritten, refused])
def test_incomplete_or_rejected_task_is_computed_again(
    workflow: Workflow, end: Callable[[Workflow, list[int]], None]
) -> None:
    """wfctl reruns a task that lacks its output or that a person recorded as failed."""
    end(workflow, begin(workflow))
    assert workflow.stage("stage-1")["status"] == "completed"
    assert len(solvers(workflow)) == 2


@pytest.mark.long
def test_task_without_a_verdict_does_not_block_other_tasks(workflow: Workflow) -> None:
    """wfctl runs all other tasks; then a person accepts the result of the first task."""
    found = begin(workflow, tasks=4, other="echo $WFCTL_PARAM_T > out.txt")
    through(workflow, found)
    refused = workflow.call("run")
    assert (refused.returncode, "tasks/T=1" in refused.stdout) == (6, True)
    tasks = workflow.root / "stage-1/tasks"
    assert {one.name for one in tasks.iterdir()} == {"T=2", "T=3", "T=4"}
    assert "tasks/T=1" in workflow.succeed("status")
    workflow.succeed("stage", "compute", "stage-1")
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert {one.name for one in tasks.iterdir()} == {"T=1", "T=2", "T=3", "T=4"}
    assert solvers(workflow) == found
    assert "4 done" in workflow.succeed("tasks", "stage-1")
    workflow.succeed("fsck", "--protocol")
