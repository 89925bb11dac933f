"""The bead-spring example runs autonomously on Slurm up to its radius of gyration."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.loop.background_runner import find_running_runner
from service.root.root import Root
from tests.cluster.support import write_machine
from tests.crash.support import Workflow
from tests.need import need_programs

EXAMPLE = Path(__file__).parents[2] / "examples/bead-spring-rg"
HERE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
#: Seconds for LAMMPS on a slow and busy machine.
PATIENCE = 900.0


@pytest.fixture
def chain(workflow: Workflow) -> Iterator[Workflow]:
    """Create a workflow from the example, with all stages on Slurm."""
    need_programs("lmp")
    shutil.copytree(EXAMPLE, workflow.root, dirs_exist_ok=True)
    profile = {
        "type": "remote",
        "batch_type": "Slurm",
        "config_path": write_machine(workflow, HERE),
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
    }
    plan = tomllib.loads((EXAMPLE / "plan.toml").read_text())
    plan |= {"default_backend": "cluster", "backend_profiles": {"cluster": profile}}
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")
    yield workflow
    found = find_running_runner(Root(workflow.root))
    if found is not None:
        os.kill(found.pid, signal.SIGKILL)


def wait_for(holds: Callable[[], object], workflow: Workflow) -> None:
    """Wait until a condition is true, with one check per second."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, (workflow.root / "progress.log").read_text()
        time.sleep(1)


@pytest.mark.long
def test_example_completes_autonomously_on_slurm(chain: Workflow) -> None:
    """Each stage is one job of one attempt, and R_g meets the criterion of the example."""
    chain.succeed("run", "--autonomous", "--between", "1")
    wait_for(lambda: find_running_runner(Root(chain.root)) is None, chain)
    state = json.loads((chain.root / "workflow-state.json").read_text())
    assert state["workflow_status"] == "completed", (chain.root / "progress.log").read_text()
    launches = chain.events("stage.launched")
    assert [event["data"]["stage"] for event in launches] == [f"stage-{n}" for n in range(1, 5)]
    assert all(event["data"]["job_ids"][0].isdigit() for event in launches)
    found = json.loads((chain.root / "stage-4/rg.json").read_text())
    print(f"R_g = {found['rg']:.2f} +- {found['standard_error']:.2f} sigma")
    assert 4.4 < found["rg"] < 5.1
    assert found["standard_error"] < 0.05 * found["rg"]
