"""A time limit ends a command with all of its processes on a scheduler and over SSH."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.host.processes import start_ticks
from tests.cluster.support import Sshd, init, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow
from tests.crash.test_background import Maker, of_one, of_tasks
from tests.crash.test_time_limits import LEAVES, pids, stage_of, told, verdicts
from tests.rounds import first

pytestmark = pytest.mark.slow
OVERDUE = "\n".join([*LEAVES, "sleep 600"])


def check_overdue(workflow: Workflow) -> None:
    """Run a stage that exceeds its limit, and check that no process remains."""
    assert workflow.call("run").returncode == 6
    assert len(pids(workflow)) == len(LEAVES)
    assert not [one for one in pids(workflow) if start_ticks(one) is not None]
    assert "124" in told(workflow)
    assert verdicts(workflow)[-1] in ("TASK_FAILED", "TASKS_FAILED")


@pytest.mark.long
@pytest.mark.parametrize("made", first([of_one, of_tasks]))
def test_time_limit_applies_on_slurm(workflow: Workflow, made: Maker) -> None:
    """On Slurm, the time limit of wfctl ends the command with all of its processes."""
    path = write_machine(workflow, {"batch_type": "Slurm", "context_type": "LocalContext"})
    init(workflow, path, stage_of(workflow, made, OVERDUE))
    check_overdue(workflow)


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_time_limit_applies_over_ssh(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """Over SSH, the time limit of wfctl ends the command with all of its processes."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, stage_of(workflow, of_one, OVERDUE))
    check_overdue(workflow)


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Slurm", "Shell"]))
def test_limited_command_over_ssh_ends_in_time(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """A remote command that ends within its limit completes, and its output is downloaded."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, stage_of(workflow, of_one, "(sleep 1; echo 1 > out.txt) & # left"))
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
