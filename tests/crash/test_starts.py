"""Settings and commands that could prevent a monitor from starting or a check from ending."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.crash.support import Workflow
from tests.crash.test_background import of_one
from tests.crash.victims import kill

pytestmark = pytest.mark.slow


def test_check_ends_with_its_shell_and_names_running_processes(workflow: Workflow) -> None:
    """A background process that keeps the output open does not delay the end of the check."""
    stage = of_one(workflow, "echo 1 > out.txt")
    stage["parameters"]["verify"] = "sleep 120 & echo $! > ../pid; echo fine; exit 0"
    workflow.init(stage)
    started = time.monotonic()
    workflow.succeed("run")
    assert time.monotonic() - started < 100
    pid = int((workflow.root.parent / "pid").read_text())
    [completed] = workflow.events("stage.completed")
    assert f"exit 0; still running: process {pid}: fine" in str(completed["data"])
    kill([pid])


def test_monitor_starts_although_tmux_destroys_sessions(
    workflow: Workflow,
) -> None:
    """wfctl starts the monitor with setsid, and its message names the tmux setting."""
    home = Path(workflow.environ["HOME"])
    (home / ".tmux.conf").write_text("set -g destroy-unattached on\n")
    workflow.init(of_one(workflow, "echo 1 > out.txt"))
    done = workflow.call("dispatch", "stage-1")
    assert done.returncode == 0, done
    assert "destroy-unattached" in done.stderr
    assert "setsid" in done.stderr
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
