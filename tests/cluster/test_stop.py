"""Stopping an attempt on each backend leaves no process and no job of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.attempt.paths import AttemptPaths, parse_attempt_name
from reconciler.control.stop_jobs import stop_attempt
from reconciler.host.processes import Process, find_processes_with
from tests.cluster.support import Slurm, Sshd, init, traced, waiting, write_machine
from tests.cluster.test_slurm import HERE
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow


def launched(workflow: Workflow, path: str) -> AttemptPaths:
    """Launch a stage that runs until it is stopped, and kill its monitor."""
    # A detached process without open files belongs to the attempt as well, so the stop must end it.
    left = "(cd / && setsid -f sleep 300 < /dev/null > /dev/null 2>&1 9>&-)"
    init(workflow, path, traced(workflow, f"{left}; {waiting(workflow)}"))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    return parse_attempt_name(
        workflow.root, "w-far", "stage-1", workflow.attempts("stage-1")[0].name
    )


def test_job_on_slurm_is_cancelled(
    workflow: Workflow, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop cancels the attempt's job in Slurm but not an unrelated job."""
    neighbour = slurm.ask("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "--wrap=sleep 600")
    attempt = launched(workflow, write_machine(workflow, HERE))
    monkeypatch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
    assert len(slurm.jobs(workflow.root)) == 1
    assert stop_attempt(attempt).left == ()
    assert slurm.jobs(workflow.root) == []
    assert neighbour.strip() in slurm.ask("squeue", "-h", "-o", "%i").split()
    slurm.ask("scancel", neighbour.strip())


@pytest.mark.long
def test_silent_slurm_does_not_confirm_the_end_of_a_job(
    workflow: Workflow, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If Slurm does not answer, wfctl does not treat the job as ended."""
    attempt = launched(workflow, write_machine(workflow, HERE))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "squeue").write_text("#!/bin/sh\nexit 1\n")
    (tools / "squeue").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tools), prepend=":")
        assert stop_attempt(attempt).left == ("a job that the scheduler does not report",)
    assert len(slurm.jobs(workflow.root)) == 1
    monkeypatch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
    assert stop_attempt(attempt).left == ()


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_remote_job_is_stopped_over_ssh(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, slurm: Slurm, batch_type: str
) -> None:
    """A stop ends every process and queued job of the attempt on the remote machine."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    attempt = launched(workflow, path)
    variable = f"WFCTL_ATTEMPT={attempt.tag}"
    assert "sleep 300" in " ".join(map(line_of, find_processes_with(variable)))
    assert stop_attempt(attempt).left == ()
    assert slurm.jobs(tmp_path / "far") == []
    assert find_processes_with(variable) == ()
    folders = [p for p in Path("/proc").glob("[0-9]*/cwd") if str(tmp_path / "far") in resolved(p)]
    assert folders == []


def line_of(process: Process) -> str:
    """Return the command line of a process, or an empty string if it no longer exists."""
    place = Path(f"/proc/{process.pid}/cmdline")
    return place.read_text().replace("\0", " ") if place.exists() else ""


def resolved(place: Path) -> str:
    """Return the working folder of a process, or an empty string if it no longer exists."""
    try:
        return str(place.readlink())
    except FileNotFoundError:
        return ""
