"""Why an attempt does not continue is said where people look, and since when."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.support import Slurm, let_go, waiting
from tests.cluster.test_slurm import ONCE, check_completed, prepared
from tests.crash.support import Workflow, until
from tests.sessions.test_night_ends import notices, receiver

pytestmark = pytest.mark.slow


def reasons(workflow: Workflow) -> list[str | None]:
    """Return the recorded reasons of an attempt, in order."""
    return [event["data"].get("waiting") for event in workflow.events("attempt.observed")]


def test_a_held_job_is_shown_by_status_show_and_log_and_sent_as_a_notice(
    workflow: Workflow, slurm: Slurm, tmp_path: Path
) -> None:
    """The reason is recorded once, and names the command that releases the job."""
    prepared(workflow, "echo 1 > out.txt", custom_flags=["#SBATCH --hold"])
    told = receiver(tmp_path)
    workflow.succeed("run", "--time-limit", "25", "--notify", str(told))
    workflow.succeed("reconcile")
    held = [one for one in reasons(workflow) if one]
    assert len(held) == 1
    [id_] = slurm.jobs(workflow.root)
    words = f"job {id_} is pending in Slurm (JobHeldUser): the user holds it; `scontrol release"
    for command in (["status"], ["show", "stage-1"], ["log"]):
        assert words in " ".join(workflow.call(*command).stdout.split()), command
    assert "since 20" in workflow.call("status").stdout
    [notice] = [one for one in notices(tmp_path) if one["kind"] == "decision"]
    assert words in notice["text"]
    slurm.ask("scontrol", "release", id_)
    workflow.succeed("run")
    check_completed(workflow, ONCE)
    assert "pending" not in workflow.call("status").stdout


@pytest.mark.long
def test_stopped_jobs_and_a_silent_scheduler_are_named(
    workflow: Workflow, slurm: Slurm, tmp_path: Path
) -> None:
    """The status says what lets the job continue, and nothing once it does."""
    prepared(workflow, waiting(workflow)).succeed("dispatch", "stage-1")
    until(lambda: bool(workflow.trace()))
    with slurm.silent():
        workflow.succeed("reconcile")
        assert "the scheduler gives no answer: " in workflow.call("status").stdout
    workflow.succeed("reconcile")
    assert "no answer" not in workflow.call("status").stdout
    works = str(workflow.root / "stage-1/.attempts")
    pids = [pid for pid, folder in folders() if folder.startswith(works) and is_of_job(pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    workflow.succeed("reconcile")
    assert "are stopped (SIGSTOP); `kill -CONT" in workflow.call("status").stdout
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


def folders() -> list[tuple[int, str]]:
    """Return the live processes and the folder that each works in."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found.append((int(place.parent.name), str(place.readlink())))
    return found


def is_of_job(pid: int) -> bool:
    """Return whether a process has the environment of a Slurm job."""
    with suppress(OSError):
        return b"SLURM_JOB_ID=" in Path(f"/proc/{pid}/environ").read_bytes()
    return False
