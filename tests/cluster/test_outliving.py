"""A command that outlives all of its shells, on a scheduler and on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.support import Slurm, Sshd, init, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.outliving import outlive, solvers, solving, through
from tests.crash.support import Workflow
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow
CHECK = "grep -qx 1 stage-1/out.txt"


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_outputs_of_an_orphaned_remote_command_are_accepted(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, slurm: Slurm, batch_type: str
) -> None:
    """wfctl waits for a remote command without its shells, then verifies its outputs."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, solving(workflow, verify=CHECK))
    workflow.succeed("dispatch", "stage-1")
    through(workflow, outlive(workflow))
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert len(solvers(workflow)) == 1


@pytest.mark.long
@pytest.mark.parametrize("watched", first([True, False]))
def test_outputs_of_an_orphaned_command_on_slurm_are_accepted(
    workflow: Workflow, watched: bool
) -> None:
    """wfctl waits for a command that continues after Slurm has ended its job."""
    path = write_machine(workflow, {"batch_type": "Slurm", "context_type": "LocalContext"})
    init(workflow, path, solving(workflow, verify=CHECK))
    workflow.succeed("dispatch", "stage-1")
    solver = outlive(workflow)
    if not watched:
        strike(workflow, Victim.SESSION)
        workflow.succeed("rehydrate")
    through(workflow, solver)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert len(solvers(workflow)) == 1
