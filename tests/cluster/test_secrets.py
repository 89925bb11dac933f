"""What lets one in is in no file of the workflow, no event, no line that anybody prints."""

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
#: What does not work is asked again and again, so nobody waits for it here.
TRY = (["dispatch", "stage-1"], ["wait", "stage-1", "--timeout", "10"], *RUN[1:])


BACKENDS = [
    ("Shell", "LocalContext"),
    ("Slurm", "LocalContext"),
    ("Shell", "SSHContext"),
    ("Slurm", "SSHContext"),
]
#: Over SSH with a scheduler behind it there is most that could tell; the rest takes its time.
WHERE = pytest.mark.parametrize(
    ("batch_type", "context_type"),
    [*(pytest.param(*one, marks=pytest.mark.long) for one in BACKENDS[:-1]), BACKENDS[-1]],
)


def on(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str, **profile: Any
) -> dict[str, Any]:
    """Return a machine that works, with secrets planted in its connection settings."""
    return {
        "batch_type": batch_type,
        "context_type": context_type,
        "remote_root": str(workflow.root.parent / "far"),
        "remote_profile": {**sshd.profile(), **PLANTED, **profile},
    }


def spied(
    workflow: Workflow, machine: dict[str, Any], command: str, *lines: list[str]
) -> list[str]:
    """Call commands with secrets planted everywhere; return where one came to light.

    The log lies outside the root, and is searched too.
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
def test_a_success_tells_no_secret(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str
) -> None:
    """After a stage has run, the whole root, the log and everything printed hold none of them."""
    # A key that needs no passphrase ignores one; a second factor is asked for only if set.
    machine = on(workflow, sshd, batch_type, context_type, totp_secret=None)
    assert spied(workflow, machine, "echo 1 > out.txt", *RUN) == []
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.few(1)
@WHERE
def test_a_failure_tells_no_secret(
    workflow: Workflow, sshd: Sshd, batch_type: str, context_type: str
) -> None:
    """Nor after a command that failed, with all that DPDispatcher says about it."""
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
def test_a_machine_that_does_not_work_tells_no_secret(
    workflow: Workflow, sshd: Sshd, wrong: dict[str, Any]
) -> None:
    """A file that is wrong is refused or leads nowhere, without a word of what it holds."""
    machine = on(workflow, sshd, "Shell", "SSHContext", **wrong)
    assert spied(workflow, machine, "echo 1 > out.txt", *TRY) == []


def test_a_plan_with_connection_settings_is_refused(workflow: Workflow) -> None:
    """The plan is recorded for good, so what lets one in must not get into it."""
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


def test_a_prepared_submission_with_a_secret_is_refused(workflow: Workflow) -> None:
    """It would be copied with every attempt; the field is named, its value is not."""
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
