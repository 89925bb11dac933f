"""wfctl names the processes that still run after a job on Slurm or over SSH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.support import Sshd, init, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow
from tests.crash.test_background import Maker, of_one, of_tasks
from tests.rounds import first

pytestmark = pytest.mark.slow
COMMAND = "echo 1 > out.txt; sleep 6 & exit 0"


@pytest.mark.long
@pytest.mark.parametrize("made", first([of_tasks, of_one]))
def test_remaining_process_is_named_over_ssh(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, made: Maker
) -> None:
    """The machine of the job sends the names back with the end of the job."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", "Shell"))
    init(workflow, path, made(workflow, COMMAND))
    assert "(sleep) of its command still ran" in workflow.call("run").stderr
    [computed] = workflow.events("stage.computed")
    assert "(sleep)" in computed["data"]["detail"]


@pytest.mark.long
def test_process_that_slurm_ends_with_its_job_is_named(workflow: Workflow) -> None:
    """Slurm ends all processes of a job, so the results may be incomplete."""
    path = write_machine(workflow, {"batch_type": "Slurm", "context_type": "LocalContext"})
    init(workflow, path, of_one(workflow, COMMAND))
    assert "(sleep) of its command still ran" in workflow.call("run").stderr
