"""A command that ends while a process of it still runs and can change the outputs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.support import Workflow
from tests.crash.test_background import FORGOTTEN, Maker, begin, of_one, of_tasks
from tests.need import need_programs

pytestmark = pytest.mark.slow


def names(worker: int, text: str) -> bool:
    """Return whether a text warns about the background process of a test."""
    named, _, after = text.partition(" of its command still ran when the job ended, so")
    return f"process {worker} (bash)" in named and "`wfctl verify stage-1`" in after


@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_remaining_process_is_named_in_a_warning(workflow: Workflow, made: Maker) -> None:
    """`wait`, the log, `status`, `show` and the report name a process that still runs.

    The output is complete when the command ends, and the process changes it later.
    """
    worker = begin(workflow, made, f"echo 1 > out.txt; {FORGOTTEN}")
    waited = workflow.call("wait", "stage-1").stderr
    assert names(worker, waited)
    [computed] = workflow.events("stage.computed")
    assert f"still running: process {worker} (bash)" in computed["data"]["detail"]
    workflow.succeed("run")
    for command in (["status"], ["show", "stage-1"], ["report", "-"], ["log"]):
        assert f"process {worker} (bash)" in workflow.succeed(*command), command
    account = json.loads(workflow.succeed("-o", "json", "status"))["data"]["account"]
    [text] = [one["text"] for one in account if one["kind"] == "process"]
    assert names(worker, text)
    (workflow.root.parent / "go").touch()
    while start_ticks(worker) is not None:
        time.sleep(0.05)


def has_remaining(workflow: Workflow) -> bool:
    """Run the workflow, and return whether it warns about a remaining process."""
    ran = workflow.call("run")
    assert ran.returncode == 0, ran
    assert workflow.stage("stage-1")["status"] == "completed"
    is_recorded = "still running" in workflow.events("stage.computed")[0]["data"]["detail"]
    assert is_recorded == ("still ran" in ran.stderr)
    return is_recorded


@pytest.mark.few(1)
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_helper_process_that_ends_soon_causes_no_warning(workflow: Workflow, made: Maker) -> None:
    """Some programs leave helper processes that end shortly after them."""
    workflow.init(made(workflow, "echo 1 > out.txt; sleep 0.5 & exit 0"))
    assert not has_remaining(workflow)


def test_process_that_the_time_limit_ends_causes_no_warning(workflow: Workflow) -> None:
    """wfctl ends the processes that a command with a time limit left running."""
    stage = of_one(workflow, "echo 1 > out.txt; sleep 60 & exit 0")
    stage["parameters"]["time_limit"] = 30
    workflow.init(stage)
    assert not has_remaining(workflow)


def test_terminal_server_causes_no_warning(workflow: Workflow) -> None:
    """A person may work in the terminal server of a command, which runs on purpose."""
    need_programs("tmux")
    start = 'tmux -L wfctl-remaining new-session -d "echo $$ > ../server; sleep 60"'
    workflow.init(of_one(workflow, f"echo 1 > out.txt; {start}; exit 0"))
    assert not has_remaining(workflow)
    kill = ["tmux", "-L", "wfctl-remaining", "kill-server"]
    subprocess.run(kill, env=workflow.environ, check=True)


def test_killed_process_after_the_end_is_still_in_the_record(workflow: Workflow) -> None:
    """The record is about the end of the job, so the fate of the process does not matter."""
    worker = begin(workflow, of_one, f"echo 1 > out.txt; {FORGOTTEN}")
    workflow.call("wait", "stage-1")
    os.kill(worker, signal.SIGKILL)
    workflow.succeed("run")
    assert names(worker, workflow.call("status").stdout)
