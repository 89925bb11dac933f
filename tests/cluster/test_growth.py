"""On a real Slurm, a stage requests more after a job that had too little memory or time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cluster.support import SLURM, free_port, init, script, traced, write_machine
from tests.cluster.test_out_of_memory import LINE, OUTPUT
from tests.cluster.test_slurm import HERE
from tests.crash.support import Workflow
from tests.need import need_programs

pytestmark = [pytest.mark.slow, pytest.mark.long]
#: Memory of the node in MB.
_NODE_MB = "8000"


@pytest.fixture
def workflow(plain: Workflow) -> Iterator[Workflow]:
    """Create an empty root whose commands find a Slurm with a node that has memory."""
    need_programs(*SLURM)
    # The path of a socket must be short.
    with TemporaryDirectory(dir="/var/tmp") as folder:
        folder_, port = Path(folder).resolve(), free_port()
        script("start-slurm.sh", folder_, port, NODE_MB=_NODE_MB)
        environ = {**plain.environ, "SLURM_CONF": f"{folder_}/slurm.conf"}
        yield replace(plain, environ=environ)
        script("start-slurm.sh", folder_, port, "stop")


def prepare_growth(
    workflow: Workflow, command: str, requested: dict[str, Any], **resources: Any
) -> None:
    """Create a workflow of one stage on Slurm that requests resources."""
    stage = traced(workflow, command)
    stage["parameters"] |= {"resources": requested, "verify": "true"}
    init(workflow, write_machine(workflow, HERE), stage, **resources)


def list_requests(workflow: Workflow, name: str) -> list[float]:
    """Return the amount of a resource that each attempt requested."""
    return [one["data"]["requested"][name] for one in workflow.events("attempt.started")]


def test_job_without_enough_memory_requests_more_from_slurm(
    workflow: Workflow, tmp_path: Path
) -> None:
    """Slurm gives the jobs 1 and then 2 GB per node."""
    memory = tmp_path / "memory"
    command = (
        f'echo "$SLURM_MEM_PER_NODE" >> "{memory}"; if [ "$WFCTL_MEMORY_GB" -lt 2 ]; then '
        f'echo "{LINE}" >> "{OUTPUT}"; kill -9 $$; exit; fi; echo 1 > out.txt'
    )
    growth = {"memory_gb": {"start": 1, "times": 2, "at_most": 4}, "time_limit": 300}
    prepare_growth(workflow, command, growth)
    workflow.succeed("run")
    assert memory.read_text().split() == ["1024", "2048"]
    assert list_requests(workflow, "memory_gb") == [1, 2]
    assert "out of memory" in workflow.events("stage.failed")[0]["data"]["error"]


def test_job_that_slurm_ended_at_its_time_limit_requests_more_cores(workflow: Workflow) -> None:
    """Slurm reports TIMEOUT, and the next job has another core."""
    # Slurm sends SIGTERM to each process. If it ends the program first, the shell must not go on.
    command = '[ "$WFCTL_CORES" = 2 ] || while :; do sleep 600; done; echo 1 > out.txt'
    growth = {"cores": {"start": 1, "plus": 1, "at_most": 2}}
    prepare_growth(workflow, command, growth, custom_flags=["#SBATCH --time=0:01"])
    workflow.succeed("run")
    assert list_requests(workflow, "cores") == [1, 2]
    assert workflow.events("stage.failed")[0]["data"]["short_of"] == "time"
