"""A mistake in the connection settings blocks a stage until a person corrects it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import (
    Sshd,
    init,
    let_go,
    traced,
    verdicts,
    waiting,
    watched,
    write_machine,
)
from tests.cluster.test_ssh import ONCE, check_completed, machine
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, strike
from tests.sessions.test_night_ends import notices, receiver

pytestmark = pytest.mark.slow
#: Mistake → the wrong settings, and the text that names the cause.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "wrong login": ({"username": "nobody-here"}, "127.0.0.1 rejects the user nobody-here"),
    "wrong key path": (
        {"key_filename": "/nowhere/id"},
        "the key file /nowhere/id (key_filename) does not exist",
    ),
    "unknown host": (
        {"hostname": "no-such-host.invalid"},
        "the host name no-such-host.invalid (hostname) is not known",
    ),
    "alias of a host": (
        {"hostname": "hpc"},
        "an alias in ~/.ssh/config, which wfctl does not read: write login.example.org as hostname",
    ),
}


def write_mistake(workflow: Workflow, right: dict[str, Any], wrong: dict[str, Any]) -> str:
    """Write a machine file with wrong connection settings, and return its path."""
    profile = {**right["remote_profile"], **wrong}
    return write_machine(workflow, {**right, "remote_profile": profile})


def check_blocked(workflow: Workflow, cause: str) -> None:
    """Check that `run` is blocked, names the cause in its first line, and runs no stage."""
    done = workflow.call("run")
    assert done.returncode == 6
    assert cause in done.stdout.splitlines()[0]
    assert "next: wfctl run" in done.stdout
    assert "***" not in done.stdout
    assert workflow.stage("stage-1")["status"] == "preparing"
    assert set(verdicts(workflow)) == {"MACHINE_REFUSED"}


@pytest.mark.long
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_connection_blocks_until_it_is_corrected(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, name: str
) -> None:
    """After a person corrects the named mistake in the machine file, `run` continues."""
    wrong, cause = MISTAKES[name]
    with (Path(workflow.environ["HOME"]) / ".ssh/config").open("a") as aliases:
        aliases.write("Host hpc\n  HostName login.example.org\n")
    right = machine(sshd, tmp_path / "far")
    init(workflow, write_mistake(workflow, right, wrong), traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, cause)
    write_machine(workflow, right)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_remote_root_that_cannot_be_created_blocks_the_stage(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """`run` names the missing parent folder, and continues once the folder exists."""
    place = write_machine(workflow, machine(sshd, tmp_path / "scratch/far"))
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, f"cannot be made: the folder {tmp_path}/scratch does not exist")
    (tmp_path / "scratch").mkdir()
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_corrected_remote_root_replaces_the_refused_attempt(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """After a correction of `remote_root`, the new attempt does not count as a retry."""
    place = write_machine(workflow, machine(sshd, tmp_path / "scratch/far"))
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, f"cannot be made: the folder {tmp_path}/scratch does not exist")
    write_machine(workflow, machine(sshd, tmp_path / "far"))
    workflow.succeed("run")
    check_completed(workflow, ["w-far/stage-1/att-0002"])
    assert workflow.stage("stage-1")["retry_count"] == 0


@pytest.mark.long
def test_amended_profile_replaces_an_unsubmitted_attempt(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """wfctl replaces the unsubmitted attempt without an answer from the refusing machine."""
    right = machine(sshd, tmp_path / "far")
    wrong, cause = MISTAKES["wrong key path"]
    place = write_mistake(workflow, right, wrong)
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, cause)
    other = Path(place).with_name("other.json")
    other.write_text(json.dumps({"local_root": ".", **right}))
    plan = json.loads((workflow.root / "plan.json").read_text())
    plan["backend_profiles"]["far"]["config_path"] = str(other)
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("plan", "apply", "plan.json", "--reason", "another key")
    workflow.succeed("run")
    check_completed(workflow, ["w-far/stage-1/att-0002"])


@pytest.mark.long
def test_stage_on_a_machine_that_refuses_the_login_is_not_running(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The stage is not running, and `wait` exits immediately and names the cause."""
    wrong, cause = MISTAKES["wrong login"]
    place = write_mistake(workflow, machine(sshd, tmp_path / "far"), wrong)
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    assert "running" not in workflow.succeed("dispatch", "stage-1")
    waited = workflow.call("wait", "stage-1")
    assert waited.returncode == 1
    assert cause in waited.stdout.splitlines()[0]
    assert workflow.events("stage.launched") == []


@pytest.mark.long
def test_autonomous_run_with_a_wrong_key_sends_one_notice(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The background runner ends after its first session, and its notice names the cause."""
    wrong, cause = MISTAKES["wrong key path"]
    place = write_mistake(workflow, machine(sshd, tmp_path / "far"), wrong)
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    workflow.succeed("run", "--autonomous", "--notify", receiver(tmp_path))
    until(lambda: notices(tmp_path))
    [told] = notices(tmp_path)
    assert (told["kind"], told["last"]) == ("end", True)
    assert cause in told["text"]
    assert len(workflow.events("session.started")) == 1


@pytest.mark.parametrize(
    ("name", "verdict"), [("wrong key path", "MACHINE_REFUSED"), ("unknown host", "UNKNOWN")]
)
@pytest.mark.long
def test_running_job_survives_a_broken_connection(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, name: str, verdict: str
) -> None:
    """If the connection settings become wrong, the job continues and is collected."""
    right = machine(sshd, tmp_path / "far")
    init(workflow, write_machine(workflow, right), traced(workflow, waiting(workflow)))
    workflow.succeed("dispatch", "stage-1")
    until(lambda: workflow.trace() == ONCE and watched(workflow))
    strike(workflow, Victim.SESSION)
    write_mistake(workflow, right, MISTAKES[name][0])
    workflow.succeed("reconcile")
    assert verdicts(workflow)[-1] == verdict
    assert workflow.stage("stage-1")["status"] == "running"
    write_machine(workflow, right)
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)
