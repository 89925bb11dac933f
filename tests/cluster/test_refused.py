"""A mistake in the connection waits for a person, and a corrected one lets the attempt go on."""

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
#: Mistakes by name: the wrong settings, and the words that name the cause.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "wrong login": ({"username": "nobody-here"}, "127.0.0.1 refuses the user nobody-here"),
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
        "it is an alias of ~/.ssh/config, which is not read: write login.example.org as hostname",
    ),
}


def write_mistake(workflow: Workflow, right: dict[str, Any], wrong: dict[str, Any]) -> str:
    """Write a machine file with wrong connection settings; return its path."""
    profile = {**right["remote_profile"], **wrong}
    return write_machine(workflow, {**right, "remote_profile": profile})


def check_blocked(workflow: Workflow, cause: str) -> None:
    """Check that `run` ends as blocked with the cause first, and calls nothing running."""
    done = workflow.call("run")
    assert done.returncode == 6
    assert cause in done.stdout.splitlines()[0]
    assert "next: wfctl run" in done.stdout
    assert "***" not in done.stdout
    assert workflow.stage("stage-1")["status"] == "preparing"
    assert set(verdicts(workflow)) == {"MACHINE_REFUSED"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_connection_blocks_until_it_is_corrected(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, name: str
) -> None:
    """The first line names the cause, and the attempt goes on with a corrected machine file."""
    wrong, cause = MISTAKES[name]
    aliases = Path(workflow.environ["HOME"]) / ".ssh" / "config"
    aliases.parent.mkdir(parents=True, exist_ok=True)
    aliases.write_text("Host hpc\n  HostName login.example.org\n")
    right = machine(sshd, tmp_path / "far")
    init(workflow, write_mistake(workflow, right, wrong), traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, cause)
    write_machine(workflow, right)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


def test_a_remote_root_that_cannot_be_made_blocks_until_it_can(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """A mistyped path is named with the folder that is missing; nothing has failed."""
    place = write_machine(workflow, machine(sshd, tmp_path / "scratch/far"))
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    check_blocked(workflow, f"cannot be made: the folder {tmp_path}/scratch does not exist")
    (tmp_path / "scratch").mkdir()
    workflow.succeed("run")
    check_completed(workflow, ONCE)


def test_an_amended_profile_replaces_an_attempt_that_was_never_submitted(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The refused machine need not answer for the attempt to be stopped."""
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


def test_a_stage_on_a_machine_that_refuses_the_login_is_not_called_running(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """`wait` ends at once and names the cause."""
    wrong, cause = MISTAKES["wrong login"]
    place = write_mistake(workflow, machine(sshd, tmp_path / "far"), wrong)
    init(workflow, place, traced(workflow, "echo 1 > out.txt"))
    assert "running" not in workflow.succeed("dispatch", "stage-1")
    waited = workflow.call("wait", "stage-1")
    assert waited.returncode == 1
    assert cause in waited.stdout.splitlines()[0]
    assert workflow.events("stage.launched") == []


def test_a_night_with_a_wrong_key_ends_with_one_notice_of_the_cause(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The runner ends with its first session, and says what it waits for."""
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
def test_a_job_at_work_survives_a_connection_that_went_wrong(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, name: str, verdict: str
) -> None:
    """A host that was known is a network that is away; a key that is gone waits for a person."""
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
