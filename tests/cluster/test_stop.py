"""Ending an attempt where its jobs run, and seeing that nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.attempt.paths import AttemptPaths, named
from reconciler.control.stopping import stop
from reconciler.host.processes import Process, began_with
from tests.cluster.support import Slurm, Sshd, init, traced, waiting, write_machine
from tests.cluster.test_slurm import HERE
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow


def launched(workflow: Workflow, path: str) -> AttemptPaths:
    """Launch a stage that computes until it is stopped, with nobody left to watch it."""
    # What works elsewhere, with every file closed, belongs to the attempt as well.
    left = "(cd / && setsid -f sleep 300 < /dev/null > /dev/null 2>&1 9>&-)"
    init(workflow, path, traced(workflow, f"{left}; {waiting(workflow)}"))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    return named(workflow.root, "w-far", "stage-1", workflow.attempts("stage-1")[0].name)


def test_a_job_on_slurm_is_cancelled(
    workflow: Workflow, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job leaves the queue, and a neighbour stays."""
    neighbour = slurm.ask("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "--wrap=sleep 600")
    attempt = launched(workflow, write_machine(workflow, HERE))
    monkeypatch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
    assert len(slurm.jobs(workflow.root)) == 1
    assert stop(attempt).left == ()
    assert slurm.jobs(workflow.root) == []
    assert neighbour.strip() in slurm.ask("squeue", "-h", "-o", "%i").split()
    slurm.ask("scancel", neighbour.strip())


@pytest.mark.long
def test_a_silent_slurm_leaves_it_open_whether_a_job_was_stopped(
    workflow: Workflow, slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an answer nobody may take the job for ended."""
    attempt = launched(workflow, write_machine(workflow, HERE))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "squeue").write_text("#!/bin/sh\nexit 1\n")
    (tools / "squeue").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tools), prepend=":")
        assert stop(attempt).left == ("what the scheduler is silent about",)
    assert len(slurm.jobs(workflow.root)) == 1
    monkeypatch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
    assert stop(attempt).left == ()


@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_a_far_job_is_stopped_over_ssh(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, slurm: Slurm, batch_type: str
) -> None:
    """Every process and queued job of the attempt ends on the far side."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    attempt = launched(workflow, path)
    variable = f"WFCTL_ATTEMPT={attempt.tag}"
    assert "sleep 300" in " ".join(map(line_of, began_with(variable)))
    assert stop(attempt).left == ()
    assert slurm.jobs(tmp_path / "far") == []
    assert began_with(variable) == ()
    folders = [p for p in Path("/proc").glob("[0-9]*/cwd") if str(tmp_path / "far") in resolved(p)]
    assert folders == []


def line_of(process: Process) -> str:
    """Return the command line of a process; nothing for one that is gone."""
    place = Path(f"/proc/{process.pid}/cmdline")
    return place.read_text().replace("\0", " ") if place.exists() else ""


def resolved(place: Path) -> str:
    """Return where a process works; nothing for one that is gone."""
    try:
        return str(place.readlink())
    except FileNotFoundError:
        return ""
