"""A job that Slurm killed because of its memory use, according to Slurm's output file."""

from __future__ import annotations

import pytest

from tests.cluster.test_slurm import prepared
from tests.crash.support import Workflow

pytestmark = pytest.mark.slow

#: The line that Slurm appends to the output of a job that it kills for its memory use.
LINE = "slurmstepd: error: Detected 1 oom_kill event in StepId=$SLURM_JOB_ID.batch."
OUTPUT = "$SLURM_SUBMIT_DIR/slurm-$SLURM_JOB_ID.out"
DEATHS = {"the command": "kill -9 $$", "the whole job": "kill -9 0"}


@pytest.mark.long
@pytest.mark.parametrize("death", sorted(DEATHS))
def test_job_killed_for_its_memory_fails_once(workflow: Workflow, death: str) -> None:
    """The stage fails with the cause "out of memory", and no second attempt starts."""
    prepared(workflow, f'echo "{LINE}" >> "{OUTPUT}"; {DEATHS[death]}')
    assert workflow.call("run").returncode == 6
    found = workflow.stage("stage-1")
    assert found["status"] == "failed"
    assert "out of memory" in found["last_error"]
    [failed] = workflow.events("stage.failed")
    assert failed["data"]["category"] == "resource"
    assert "propose more memory" in workflow.succeed("stage", "diagnose", "stage-1")
    assert len(workflow.events("attempt.started")) == 1
