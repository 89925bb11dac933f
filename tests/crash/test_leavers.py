"""Processes that a command leaves running outside its folder, and a stopped monitor."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.aftermath import recover
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, kill, strike

pytestmark = pytest.mark.slow

DRIVER = """
import os, subprocess, sys, time
from pathlib import Path
outside = Path(sys.argv[1])
solver = subprocess.Popen(["sleep", "300"], cwd="/", start_new_session=True)
(outside / f"driver-{os.getpid()}").write_text(str(solver.pid))
while not (outside / "go").exists():
    time.sleep(0.02)
solver.kill()
Path("out.txt").write_text("1\\n")
"""


def dispatched(workflow: Workflow, **environ: str) -> tuple[int, int]:
    """Launch a driver program whose solver runs in another folder without open files.

    Return the process ids of the driver and the solver.
    """
    outside = workflow.root.parent
    (outside / "driver.py").write_text(DRIVER)
    words = f'exec "{sys.executable}" "{outside}/driver.py" "{outside}"'
    command = {"command": words}
    one = {"id": "stage-1", "name": "one", "outputs": ["stage-1/out.txt"], "parameters": command}
    workflow.init(one)
    workflow.succeed("dispatch", "stage-1", **environ)
    return driver(workflow, 1)


def driver(workflow: Workflow, number: int) -> tuple[int, int]:
    """Wait until the given number of drivers exist, and return the newest driver and its solver."""
    found: list[Path] = []

    def are_there() -> bool:
        found[:] = [one for one in workflow.root.parent.glob("driver-*") if one.read_text()]
        return len(found) == number

    until(are_there)
    newest = max(found, key=lambda one: one.stat().st_mtime_ns)
    return int(newest.name.partition("-")[2]), int(newest.read_text())


@pytest.mark.long
def test_a_solver_without_its_driver_is_ended_before_a_new_attempt(
    workflow: Workflow,
) -> None:
    """If its driver was killed, wfctl kills the solver before the next attempt starts."""
    first, solver = dispatched(workflow)
    kill([first])
    strike(workflow, Victim.TMUX_SERVER)
    until(lambda: workflow.call("rehydrate").returncode == 0 and len(drivers(workflow)) == 2)
    assert start_ticks(solver) is None
    (workflow.root.parent / "go").touch()
    recover(workflow)
    assert len(drivers(workflow)) == 2


def drivers(workflow: Workflow) -> list[Path]:
    """Return the files in which the started drivers recorded their process ids."""
    return list(workflow.root.parent.glob("driver-*"))


def test_cancel_ends_an_orphaned_solver(workflow: Workflow) -> None:
    """`stage cancel` kills the solver, and the recorded event lists it."""
    _, solver = dispatched(workflow)
    workflow.succeed("stage", "cancel", "stage-1")
    assert start_ticks(solver) is None
    [stopped] = workflow.events("attempt.stopped")
    assert f"process {solver}" in stopped["data"]["ended"]


@pytest.mark.long
def test_retry_ends_the_solver_of_a_failed_driver(workflow: Workflow) -> None:
    """The driver failed while its solver continued. `stage retry` kills that solver."""
    first, solver = dispatched(workflow)
    os.kill(first, signal.SIGTERM)
    until(lambda: workflow.call("rehydrate").returncode == 0 and is_failed(workflow))
    (workflow.root.parent / "go").touch()
    workflow.succeed("stage", "retry", "stage-1", "--fix", "another try")
    workflow.succeed("run")
    assert start_ticks(solver) is None


def is_failed(workflow: Workflow) -> bool:
    """Return whether the stage has failed."""
    return bool(workflow.stage("stage-1")["status"] == "failed")


def test_suspended_monitor_is_reported(workflow: Workflow) -> None:
    """wfctl reports a stopped monitor. After SIGCONT to the monitor, the stage completes."""
    # The tmux replacement always fails, so the monitor runs without tmux. A real tmux would resume
    # a stopped monitor immediately.
    refusing = workflow.root.parent / "bin"
    refusing.mkdir()
    (refusing / "tmux").write_text("#!/bin/sh\nexit 1\n")
    (refusing / "tmux").chmod(0o755)
    dispatched(workflow, PATH=f"{refusing}:{workflow.environ['PATH']}")
    record = workflow.attempts("stage-1")[0] / "monitor.json"
    pid = int(json.loads(record.read_text())["pid"])
    os.kill(pid, signal.SIGSTOP)
    workflow.succeed("rehydrate")
    newest = workflow.events("attempt.observed")[-1]["data"]
    assert (newest["verdict"], newest["action"]) == ("MONITOR_STOPPED", "wait")
    assert "kill -CONT" in newest["reason"]
    os.kill(pid, signal.SIGCONT)
    (workflow.root.parent / "go").touch()
    recover(workflow)
