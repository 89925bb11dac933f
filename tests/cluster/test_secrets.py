"""Connection secrets appear in no file of the workflow, no event and no output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import PROMPT, Sshd, init, traced, write_machine
from tests.crash.support import Workflow
from tests.rounds import first

pytestmark = pytest.mark.slow
PLANTED = {
    "password": "canary-password-8d1f",
    "passphrase": "canary-passphrase-27aa",
    "totp_secret": "MNQW4YLSPEWXI33UOA",
}
TOKENS = {"HPC_TOKEN": "canary-token-90c3", "BOHRIUM_PASSWORD": "canary-password-55e0"}
CANARIES = [*PLANTED.values(), *TOKENS.values()]


RUN = (["run"], ["reconcile"], ["rehydrate"], ["show", "stage-1"], ["log"])
#: A connection that fails is tried repeatedly, so the test limits the waiting time.
TRY = (["dispatch", "stage-1"], ["wait", "stage-1", "--timeout", "10"], *RUN[1:])


BACKENDS = [
    ("Shell", "LocalContext"),
    ("Slurm", "LocalContext"),
    ("Shell", "SSHContext"),
    ("Slurm", "SSHContext"),
]
#: SSH with a scheduler has the most places for a leak. The other combinations are long tests.
WHERE = pytest.mark.parametrize(
    ("batch_type", "context_type"),
    [*(pytest.param(*one, marks=pytest.mark.long) for one in BACKENDS[:-1]), BACKENDS[-1]],
)


def on(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str, **profile: Any
) -> dict[str, Any]:
    """Return a working machine with secrets in its connection settings."""
    return {
        "batch_type": batch_type,
        "context_type": context_type,
        "remote_root": str(workflow.root.parent / "far"),
        "remote_profile": {**sshd.profile(), **PLANTED, **profile},
    }


def spied(
    workflow: Workflow, machine: dict[str, Any], command: str, *lines: list[str]
) -> list[str]:
    """Run commands with secrets in all settings; return the files that contain a secret.

    The event log lies outside the root and is searched too. The list has the item "printed" if the
    output of the commands contains a secret.
    """
    (workflow.root.parent / "log").mkdir()
    place = {"WFCTL_DATABASE_URL": f"sqlite:///{workflow.root.parent}/log/events.db"}
    there = replace(workflow, environ={**workflow.environ, **place})
    init(there, write_machine(workflow, machine), traced(workflow, command))
    said = ""
    for line in lines:
        done = there.call(*line, WFCTL_DEBUG="1", **PROMPT, **TOKENS)
        said += done.stdout + done.stderr
    home = Path(workflow.environ["HOME"]) / ".dpdispatcher"
    assert home.is_dir()
    found = [*_found(workflow.root), *_found(workflow.root.parent / "log"), *_found(home)]
    assert (workflow.root.parent / "log/events.db").exists()
    return [*found, *(["printed"] if any(c in said for c in CANARIES) else [])]


def _found(root: Path) -> list[str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return [
        str(path.relative_to(root))
        for path in files
        if any(canary.encode() in path.read_bytes() for canary in CANARIES)
    ]


@pytest.mark.long
@WHERE
def test_successful_run_reveals_no_secret(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str
) -> None:
    """After a completed stage, no file, event or output contains a secret."""
    # The test needs a working login: a passphrase is ignored for an unencrypted key, but a second
    # factor would be used.
    machine = on(workflow, sshd, batch_type, context_type, totp_secret=None)
    assert spied(workflow, machine, "echo 1 > out.txt", *RUN) == []
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.long
@WHERE
def test_failed_run_reveals_no_secret(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str
) -> None:
    """After a failed run, no file, event, output or error contains a secret."""
    machine = on(workflow, sshd, batch_type, context_type, totp_secret=None)
    assert spied(workflow, machine, "echo no >&2; exit 3", *RUN) == []
    assert workflow.stage("stage-1")["status"] == "failed"


WRONG: list[dict[str, Any]] = [
    {"key_filename": "/nowhere/id"},
    {"execute_command": "echo canary-token-90c3; exit 1", "totp_secret": None},
    {"password": ["canary-password-8d1f"]},
    {"pasword": "canary-password-8d1f"},
    {"timeout": "canary-token-90c3"},
    {"proxy_command": "echo canary-token-90c3; exit 1"},
]


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    first(WRONG),
    ids=lambda wrong: next(iter(wrong)),
)
def test_broken_machine_file_reveals_no_secret(
    workflow: Workflow, sshd: Sshd, wrong: dict[str, Any]
) -> None:
    """The error about an invalid machine file does not quote its values."""
    machine = on(workflow, sshd, "Shell", "SSHContext", **wrong)
    assert spied(workflow, machine, "echo 1 > out.txt", *TRY) == []


def test_plan_with_connection_settings_is_refused(workflow: Workflow) -> None:
    """The plan must not contain secrets, because the log keeps it permanently."""
    config = {"batch_type": "Shell", "context_type": "SSHContext", "remote_profile": PLANTED}
    plan = {
        "workflow_id": "w-far",
        "backend_profiles": {"local": {"type": "local", "config": config}},
        "stages": [traced(workflow, "true")],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    done = workflow.call("init", "plan.json", "--consent", "trust")
    assert done.returncode == 1
    assert "remote_profile" in done.stderr
    assert not any(canary in done.stdout + done.stderr for canary in CANARIES)
    assert not (workflow.root / ".wfctl").exists()


def test_prepared_submission_with_a_secret_is_refused(workflow: Workflow) -> None:
    """The error names the field with the secret but not its value."""
    init(workflow, write_machine(workflow, {}), traced(workflow, "true"))
    (workflow.root / "stage-1").mkdir()
    machine = {
        "batch_type": "Shell",
        "context_type": "SSHContext",
        "remote_root": "/far",
        "remote_profile": PLANTED,
    }
    tasks = [{"command": "true", "task_work_path": "."}]
    submission = {"work_base": ".", "machine": machine, "resources": {}, "task_list": tasks}
    written = workflow.root / "stage-1/submission.json"
    written.write_text(json.dumps(submission))
    done = workflow.call("dispatch", "stage-1")
    assert done.returncode == 5
    assert "machine.remote_profile.password" in done.stderr
    assert not any(canary in done.stdout + done.stderr for canary in CANARIES)
    assert _found(workflow.root) == ["stage-1/submission.json"]
