"""The output of a job on a scheduler and over SSH is available during and after the job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Sshd, init, let_go, traced, waiting, write_machine
from tests.cluster.test_slurm import HERE
from tests.cluster.test_ssh import machine
from tests.crash.support import PATIENCE, Workflow, ending, until

pytestmark = pytest.mark.slow


def check_heard(workflow: Workflow, where: Mapping[str, Any]) -> None:
    """Check that `logs` follows the output of a running job and prints it after the end."""
    command = f"echo one; echo bad >&2; {waiting(workflow)}; printf 'two\\nend'"
    init(workflow, write_machine(workflow, where), traced(workflow, command))
    workflow.succeed("dispatch", "stage-1")
    with ending(workflow.start("logs", "stage-1", "-f")) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "one\n", workflow.said()
        assert workflow.succeed("logs", "stage-1", "--err") == "bad\n"
        let_go(workflow)
        assert follower.communicate(timeout=PATIENCE)[0] == "two\nend"
        assert follower.returncode == 0
    until((workflow.root / "stage-1/DPDISP_DONE").exists)
    assert workflow.succeed("logs", "stage-1", "-n", "2") == "two\nend"
    workflow.succeed("wait", "stage-1")
    assert workflow.succeed("logs", "stage-1") == "one\ntwo\nend"


@pytest.mark.long
def test_output_of_a_slurm_job_is_followed(workflow: Workflow) -> None:
    """`logs` reads the output of a Slurm job from the files on this machine."""
    check_heard(workflow, HERE)


@pytest.mark.long
def test_output_of_a_job_over_ssh_is_followed(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """`logs` reads the output of a remote job over SSH until the files are downloaded."""
    check_heard(workflow, machine(sshd, tmp_path / "far"))
