"""A `remote_root` (work folder of jobs) on this computer without write permission.

The stage is blocked until a person corrects the folder or its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Slurm, traced, write_machine
from tests.cluster.test_planted_faults import closed
from tests.crash.support import Workflow

pytestmark = pytest.mark.slow


def write_plan(workflow: Workflow, profile: dict[str, Any]) -> None:
    """Write a plan of one stage for a backend profile."""
    plan = {
        "workflow_id": "w-far",
        "default_backend": "far",
        "backend_profiles": {"far": profile},
        "stages": [traced(workflow, "echo 1 > out.txt")],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))


def describe(batch_type: str, scratch: str) -> dict[str, Any]:
    """Return a machine description of this computer with the given work folder."""
    described = {"batch_type": batch_type, "context_type": "LocalContext"}
    return {**described, "local_root": "./", "remote_root": scratch}


def by_file(workflow: Workflow, batch_type: str, scratch: str) -> None:
    """Write a plan that names the work folder in a separate machine file."""
    path = write_machine(workflow, describe(batch_type, scratch))
    resources = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
    profile = {"type": "remote", "batch_type": batch_type, "config_path": path}
    write_plan(workflow, {**profile, "resource_defaults": resources})


def in_plan(workflow: Workflow, batch_type: str, scratch: str) -> None:
    """Write a plan that describes the machine itself, including the work folder."""
    write_plan(workflow, {"config": describe(batch_type, scratch)})


def open_folder(workflow: Workflow, _: str, scratch: str) -> None:
    """Make the work folder of the jobs writable for the user."""
    Path(scratch).chmod(0o755)


def name_another(workflow: Workflow, batch_type: str, scratch: str) -> None:
    """Name another work folder in the machine file."""
    by_file(workflow, batch_type, f"{scratch}-not")


def apply_plan(workflow: Workflow, batch_type: str, scratch: str) -> None:
    """Apply a plan that names another work folder."""
    in_plan(workflow, batch_type, f"{scratch}-not")
    workflow.succeed("plan", "apply", "plan.json", "--reason", "another folder")


Write = Callable[[Workflow, str, str], None]


@pytest.mark.few(3)
@pytest.mark.parametrize("batch_type", ["Shell", "Slurm"])
@pytest.mark.parametrize(
    ("write", "correct", "attempt"),
    [
        (by_file, open_folder, "att-0001"),
        (by_file, name_another, "att-0002"),
        (in_plan, open_folder, "att-0001"),
        (in_plan, apply_plan, "att-0002"),
    ],
)
def test_unwritable_remote_root_is_reported_and_run_continues_after_its_correction(
    workflow: Workflow,
    slurm: Slurm,
    tmp_path: Path,
    batch_type: str,
    write: Write,
    correct: Write,
    attempt: str,
) -> None:
    """`run` and `status` name the unwritable folder, and the correction costs no retry."""
    scratch = closed(tmp_path)
    write(workflow, batch_type, scratch)
    workflow.succeed("init", "plan.json", "--consent", "trust")
    done = workflow.call("run")
    cause = f"the folder {scratch} (remote_root) cannot be used: "
    assert done.returncode == 6
    assert cause in done.stdout.splitlines()[0]
    status = workflow.succeed("status")
    assert cause in status
    assert "next: wfctl run" in status
    correct(workflow, batch_type, scratch)
    workflow.succeed("run")
    assert workflow.trace() == [f"w-far/stage-1/{attempt}"]
    assert workflow.stage("stage-1")["retry_count"] == 0


def test_dispatch_into_an_unwritable_remote_root_is_not_running(
    workflow: Workflow, tmp_path: Path
) -> None:
    """After the dispatch, `wait` exits immediately and names the folder as the cause."""
    scratch = closed(tmp_path)
    in_plan(workflow, "Shell", scratch)
    workflow.succeed("init", "plan.json", "--consent", "trust")
    assert "running" not in workflow.succeed("dispatch", "stage-1")
    waited = workflow.call("wait", "stage-1")
    assert waited.returncode == 1
    assert f"the folder {scratch} (remote_root) cannot be used" in waited.stdout.splitlines()[0]
