"""A command that outlives all of its shells: nobody is left to write down how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.crash.aftermath import recover
from tests.crash.outliving import noted, outlive, shells_above, solvers, solving, through
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, kill, strike
from tests.rounds import first

pytestmark = pytest.mark.slow


def begin(workflow: Workflow, *, watched: bool, **parameters: Any) -> int:
    """Dispatch and kill the shells, and the monitor unless it is ``watched``; return the solver."""
    workflow.init(solving(workflow, **parameters))
    workflow.succeed("dispatch", "stage-1")
    solver = outlive(workflow)
    if not watched:
        strike(workflow, Victim.TMUX_SERVER)
        strike(workflow, Victim.MONITOR)
        workflow.succeed("rehydrate")
    return solver


@pytest.mark.parametrize("watched", first([True, False]))
def test_what_it_left_counts_where_a_command_tells_that_it_is_right(
    workflow: Workflow, watched: bool
) -> None:
    """It is waited for, and its outputs are verified: nothing is computed again."""
    solver = begin(workflow, watched=watched, verify="grep -qx 1 stage-1/out.txt")
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.parametrize("watched", first([True, False]))
def test_an_output_with_an_old_modification_time_was_written(
    workflow: Workflow, watched: bool
) -> None:
    """A command may keep the time of the file that it copies, as `cp -p` does."""
    (workflow.root.parent / "old").touch()
    solver = begin(workflow, watched=watched, verify="grep -qx 1 stage-1/out.txt")
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


def test_a_shell_that_was_left_and_tells_of_the_blow_is_no_end(workflow: Workflow) -> None:
    """Only the shell that waits for the command is killed; the job's own records 137."""
    workflow.init(solving(workflow, verify="grep -qx 1 stage-1/out.txt"))
    workflow.succeed("dispatch", "stage-1")
    solver = outlive(workflow, last=1)
    until(lambda: noted(workflow))
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.parametrize("watched", first([True, False]))
def test_a_person_says_where_nothing_tells_whether_it_ended_well(
    workflow: Workflow, watched: bool
) -> None:
    """Its outputs are brought into place, and the verdict names the way on."""
    solver = begin(workflow, watched=watched)
    through(workflow, solver)
    assert workflow.call("run").returncode == 6
    newest = workflow.events("attempt.observed")[-1]["data"]
    assert (newest["verdict"], newest["action"]) == ("UNTOLD", "unknown")
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    workflow.succeed("stage", "compute", "stage-1")
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.long
def test_it_is_computed_again_where_it_did_not_write_all_and_the_verdict_says_so(
    workflow: Workflow,
) -> None:
    """Ended before its output was there, it is lost like any other."""
    solver = begin(workflow, watched=True, verify="grep -qx 1 stage-1/out.txt")
    (workflow.root.parent / "broken").touch()
    through(workflow, solver)
    (workflow.root.parent / "broken").unlink()
    recover(workflow)
    lost = [one["data"] for one in workflow.events("attempt.observed")]
    assert any("computed on without them" in one["reason"] for one in lost)
    assert len(solvers(workflow)) == 2


def test_an_output_that_is_still_written_does_not_count(workflow: Workflow) -> None:
    """It lies there while the command computes on: the end is waited for."""
    solver = begin(workflow, watched=False)
    scratch = Path(f"/proc/{solver}/cwd").readlink()
    (scratch / "out.txt").write_text("half")
    until(lambda: noted(workflow))
    workflow.succeed("rehydrate")
    newest = workflow.events("attempt.observed")[-1]["data"]
    assert newest["action"] in ("attach", "wait")
    through(workflow, solver)
    assert workflow.call("run").returncode == 6
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"


def test_a_shell_that_is_left_tells_how_its_command_ended(workflow: Workflow) -> None:
    """Only the job's own shell killed, the task's is left to say that all went well."""
    workflow.init(solving(workflow))
    workflow.succeed("dispatch", "stage-1")
    until(lambda: solvers(workflow))
    [solver] = solvers(workflow)
    outermost = shells_above(solver)[0]
    kill([outermost])
    through(workflow, solver)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]
