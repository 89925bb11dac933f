"""A command that continues after its shells were killed, so its exit code is unknown."""

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
    """Dispatch a stage and kill its shells; unless ``watched``, also kill its monitor."""
    workflow.init(solving(workflow, **parameters))
    workflow.succeed("dispatch", "stage-1")
    solver = outlive(workflow)
    if not watched:
        strike(workflow, Victim.TMUX_SERVER)
        strike(workflow, Victim.MONITOR)
        workflow.succeed("rehydrate")
    return solver


@pytest.mark.long
@pytest.mark.parametrize("watched", first([True, False]))
def test_what_it_wrote_without_its_shells_is_accepted_after_a_check(
    workflow: Workflow, watched: bool
) -> None:
    """wfctl waits for a command without shells and verifies its outputs."""
    solver = begin(workflow, watched=watched, verify="grep -qx 1 stage-1/out.txt")
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.long
@pytest.mark.parametrize("watched", first([True, False]))
def test_output_with_an_old_modification_time_is_accepted(
    workflow: Workflow, watched: bool
) -> None:
    """An output with an old time, as `cp -p` keeps it, is accepted."""
    (workflow.root.parent / "old").touch()
    solver = begin(workflow, watched=watched, verify="grep -qx 1 stage-1/out.txt")
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.long
def test_exit_code_of_a_killed_shell_is_not_the_end(workflow: Workflow) -> None:
    """wfctl ignores the exit code 137 that the kill of an inner shell caused."""
    workflow.init(solving(workflow, verify="grep -qx 1 stage-1/out.txt"))
    workflow.succeed("dispatch", "stage-1")
    solver = outlive(workflow, last=1)
    until(lambda: noted(workflow))
    through(workflow, solver)
    recover(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == [solver]


@pytest.mark.long
@pytest.mark.parametrize("watched", first([True, False]))
def test_person_decides_if_an_orphaned_command_succeeded(workflow: Workflow, watched: bool) -> None:
    """Without a check, wfctl collects the outputs, and a person decides about the stage."""
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
def test_orphaned_command_with_missing_outputs_runs_again(
    workflow: Workflow,
) -> None:
    """A command that ended before its output was complete counts as lost and runs again."""
    solver = begin(workflow, watched=True, verify="grep -qx 1 stage-1/out.txt")
    (workflow.root.parent / "broken").touch()
    through(workflow, solver)
    (workflow.root.parent / "broken").unlink()
    recover(workflow)
    lost = [one["data"] for one in workflow.events("attempt.observed")]
    assert any("its command continued" in one["reason"] for one in lost)
    assert len(solvers(workflow)) == 2


@pytest.mark.long
def test_output_that_is_still_being_written_is_not_accepted(workflow: Workflow) -> None:
    """While the command still runs, wfctl does not accept the existing output."""
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


@pytest.mark.long
def test_remaining_shell_records_the_exit_code(workflow: Workflow) -> None:
    """Only the job's shell is killed, and the shell of the task records the success."""
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
