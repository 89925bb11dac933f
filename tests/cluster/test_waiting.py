"""`status`, `show`, `log` and `run` state the reason why an attempt does not continue."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.cluster.support import Slurm, Sshd, init, let_go, traced, waiting, write_machine
from tests.cluster.test_slurm import ONCE, check_completed, prepared
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, find, kill
from tests.sessions.test_night_ends import notices, receiver

pytestmark = pytest.mark.slow


def reasons(workflow: Workflow) -> list[str | None]:
    """Return the recorded waiting reasons of an attempt, in order."""
    return [event["data"].get("waiting") for event in workflow.events("attempt.observed")]


@pytest.mark.long
def test_held_job_is_shown_and_sent_as_a_notice(
    workflow: Workflow, slurm: Slurm, tmp_path: Path
) -> None:
    """A held job's reason is recorded once and names the command that releases the job."""
    prepared(workflow, "echo 1 > out.txt", custom_flags=["#SBATCH --hold"])
    told = receiver(tmp_path)
    workflow.succeed("run", "--time-limit", "25", "--notify", str(told))
    workflow.succeed("reconcile")
    held = [one for one in reasons(workflow) if one]
    assert len(held) == 1
    [id_] = slurm.jobs(workflow.root)
    words = f"job {id_} is pending in Slurm (JobHeldUser): held by the user; `scontrol release"
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
def test_stopped_job_and_silent_scheduler_are_reported(
    workflow: Workflow, slurm: Slurm, tmp_path: Path
) -> None:
    """`status` reports a silent scheduler, and how to continue a suspended job."""
    prepared(workflow, waiting(workflow)).succeed("dispatch", "stage-1")
    until(lambda: bool(workflow.trace()))
    with slurm.silent():
        workflow.succeed("reconcile")
        assert "the scheduler does not answer: " in workflow.call("status").stdout
    workflow.succeed("reconcile")
    assert "does not answer" not in workflow.call("status").stdout
    works = str(workflow.root / "stage-1/.attempts")
    pids = [pid for pid, folder in folders() if folder.startswith(works) and is_of_job(pid)]
    send_signal(pids, signal.SIGSTOP)
    workflow.succeed("reconcile")
    assert "are paused (SIGSTOP); continue them with `kill -CONT" in workflow.call("status").stdout
    send_signal(pids, signal.SIGCONT)
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_held_job_over_ssh_is_shown_with_its_reason(
    workflow: Workflow, slurm: Slurm, sshd: Sshd, tmp_path: Path
) -> None:
    """A held job on a remote scheduler is reported like one on a local scheduler."""
    place = write_machine(workflow, machine(sshd, tmp_path / "far", "Slurm"))
    stage = traced(workflow, "echo 1 > out.txt")
    init(workflow, place, stage, custom_flags=["#SBATCH --hold"])
    workflow.succeed("dispatch", "stage-1")
    until(lambda: bool(slurm.jobs(tmp_path / "far")))
    workflow.succeed("reconcile")
    [id_] = slurm.jobs(tmp_path / "far")
    assert f"job {id_} is pending in Slurm (JobHeldUser)" in workflow.succeed("status")
    slurm.ask("scontrol", "release", id_)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_amended_plan_replaces_a_job_with_an_unsatisfiable_dependency(
    workflow: Workflow, slurm: Slurm, tmp_path: Path
) -> None:
    """`run` is blocked by a job that can never start. An amended plan completes the stage."""
    failed = slurm.ask("sbatch", "--parsable", f"--chdir={tmp_path}", "--wrap", "exit 1").strip()
    until(lambda: "FAILED" in slurm.ask("scontrol", "show", "job", failed))
    check_amended(workflow, "DependencyNeverSatisfied", f"--dependency=afterok:{failed}")


@pytest.mark.long
def test_amended_plan_replaces_a_job_above_its_partition_time_limit(
    workflow: Workflow, slurm: Slurm
) -> None:
    """`run` is blocked by a job above the limit, and an amended plan completes the stage."""
    with suppress(CalledProcessError):  # the partition may exist already
        slurm.ask("scontrol", "create", "PartitionName=short", "Nodes=ALL", "MaxTime=1")
    check_amended(workflow, "PartitionTimeLimit", "--partition=short --time=10")


def check_amended(workflow: Workflow, reason: str, flags: str) -> None:
    """Check that a job with these flags blocks `run`, and that a plan without them completes."""
    given = [f"#SBATCH {one}" for one in flags.split()]
    prepared(workflow, "echo 1 > out.txt", custom_flags=given)
    done = workflow.call("run")
    assert done.returncode == 6
    assert f"({reason})" in done.stdout.splitlines()[0]
    assert "next: wfctl plan apply" in done.stdout
    plan = json.loads((workflow.root / "plan.json").read_text())
    del plan["backend_profiles"]["far"]["resource_defaults"]["custom_flags"]
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("plan", "apply", "plan.json", "--reason", "without these flags")
    workflow.succeed("run")
    check_completed(workflow, ["w-far/stage-1/att-0002"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("flag", "words"),
    [("--hold", "(JobHeldUser): held by the user"), ("--begin=now+1hour", "(BeginTime): its")],
)
def test_status_run_and_wait_show_the_reason_of_a_pending_job(
    workflow: Workflow, slurm: Slurm, tmp_path: Path, flag: str, words: str
) -> None:
    """Each command shows the reason. Only a held job also causes a notice."""
    prepared(workflow, "echo 1 > out.txt", custom_flags=[f"#SBATCH {flag}"])
    told = receiver(tmp_path)
    ran = workflow.call("run", "--time-limit", "40", "--notify", str(told))
    [id_] = slurm.jobs(workflow.root)
    pending = f"job {id_} is pending in Slurm {words}"
    assert pending in " ".join(ran.stderr.split())
    waited = workflow.call("wait", "stage-1", "--timeout", "35")
    assert pending in " ".join((waited.stderr + waited.stdout).split())
    assert pending in " ".join(workflow.call("status").stdout.split())
    sent = [one for one in notices(tmp_path) if one["kind"] == "decision"]
    assert len(sent) == (flag == "--hold")
    # The monitor of a job that never starts keeps running, so the test kills it.
    kill(find(workflow, Victim.EVERYTHING))


def folders() -> list[tuple[int, str]]:
    """Return the live processes with their working folders."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found.append((int(place.parent.name), str(place.readlink())))
    return found


def send_signal(pids: list[int], number: int) -> None:
    """Send a signal to the given processes, and ignore those that no longer exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def is_of_job(pid: int) -> bool:
    """Return whether a process has the environment of a Slurm job."""
    with suppress(OSError):
        return b"SLURM_JOB_ID=" in Path(f"/proc/{pid}/environ").read_bytes()
    return False
