"""A command that ends before its background process has written the outputs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.support import Workflow, until
from tests.sweeps.support import sweep

pytestmark = pytest.mark.slow

#: Shell commands that write their process id to a file and then write the output once the test
#: releases them.
WORK = (
    'echo $BASHPID > "{0}/worker.new"; mv "{0}/worker.new" "{0}/worker"; '
    'until [ -e "{0}/go" ]; do sleep 0.05; done; [ -e "{0}/broken" ] || echo 2 >> out.txt'
)
#: Shell commands that leave a background process when they end.
FORGOTTEN = "({}) & exit 0"
DETACHED = "setsid bash -c '{}' > /dev/null 2>&1 6<&- 9>&- < /dev/null &"
HALF = "(exec > out.txt; echo 1; {}) & exit 0"


def of_one(workflow: Workflow, command: str) -> dict[str, Any]:
    """Return a stage that runs the command once."""
    outputs = ["stage-1/out.txt"]
    return {"id": "stage-1", "name": "one", "outputs": outputs, "parameters": {"command": command}}


def of_tasks(workflow: Workflow, command: str) -> dict[str, Any]:
    """Return a sweep stage that runs the command as its only task."""
    stage: dict[str, Any] = sweep(workflow.root.parent / "trace", {"points": [{"T": 1}]})
    stage["parameters"] |= {"command": command, "task_outputs": ["out.txt"], "metrics": {}}
    return stage


Maker = Callable[[Workflow, str], dict[str, Any]]


def begin(workflow: Workflow, made: Maker, way: str) -> int:
    """Dispatch a command that leaves a background worker, and return the worker's process id."""
    outside = workflow.root.parent
    workflow.init(made(workflow, way.format(WORK.format(outside))))
    workflow.succeed("dispatch", "stage-1")
    until((outside / "worker").exists)
    return int((outside / "worker").read_text())


def observed(workflow: Workflow) -> dict[str, Any]:
    """Call `rehydrate`, and return the newest observation."""
    workflow.succeed("rehydrate")
    return dict(workflow.events("attempt.observed")[-1]["data"])


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("made", "way"),
    [
        (of_one, FORGOTTEN),
        (of_one, DETACHED),
        (of_one, HALF),
        (of_tasks, FORGOTTEN),
        (of_tasks, DETACHED),
        (of_tasks, HALF),
    ],
)
def test_what_still_writes_an_output_is_named_and_awaited(
    workflow: Workflow, made: Maker, way: str
) -> None:
    """wfctl names the background process and waits until it has written the output."""
    worker = begin(workflow, made, way)
    until(lambda: any(workflow.attempts("stage-1")[0].glob("job-*.awaited.*")))
    newest = observed(workflow)
    assert newest["action"] == "wait"
    assert f"process {worker} (bash)" in newest["reason"]
    (workflow.root.parent / "go").touch()
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    [attempt] = workflow.attempts("stage-1")
    [written] = (workflow.root / "stage-1").rglob("out.txt")
    assert written.read_text().endswith("2\n")
    assert not any(attempt.glob("job-*.awaited.*"))


@pytest.mark.few(1)
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_stage_fails_if_its_background_process_writes_no_output(
    workflow: Workflow, made: Maker
) -> None:
    """After the background process ended without the output, the stage fails."""
    begin(workflow, made, FORGOTTEN)
    (workflow.root.parent / "broken").touch()
    (workflow.root.parent / "go").touch()
    assert workflow.call("run").returncode == 6
    newest = workflow.events("attempt.observed")[-1]["data"]
    assert newest["verdict"] in ("OUTPUT_MISSING", "TASKS_FAILED")


@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_background_process_does_not_delay_complete_outputs(
    workflow: Workflow, made: Maker
) -> None:
    """The stage completes while a background process still runs.

    For a stage with a single command, the verdict names the process.
    """
    worker = begin(workflow, made, f"echo 1 > out.txt; {FORGOTTEN}")
    workflow.succeed("run")
    assert start_ticks(worker) is not None
    assert workflow.stage("stage-1")["status"] == "completed"
    if made is of_one:
        reasons = [one["data"]["reason"] for one in workflow.events("attempt.observed")]
        _, named = reasons[-1].split("processes that it started are still running: ")
        assert f"process {worker}" in named.split(", ")  # possibly next to its own sleep process
    os.kill(worker, signal.SIGKILL)


@pytest.mark.few(1)
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_cancel_ends_an_awaited_background_process(workflow: Workflow, made: Maker) -> None:
    """`stage cancel` kills a background process that never writes its output."""
    worker = begin(workflow, made, DETACHED)
    workflow.succeed("stage", "cancel", "stage-1")
    assert start_ticks(worker) is None


HELPER = 'sleep 300 & echo $! > "{0}/helper"; echo started >> "{0}/starts"; '


@pytest.mark.parametrize(
    ("last", "code", "status"), [("echo 1 > out.txt", 0, "completed"), ("(exit 3)", 6, "failed")]
)
def test_command_that_signals_its_own_group_at_its_end_runs_once(
    workflow: Workflow, last: str, code: int, status: str
) -> None:
    """The exit code is recorded before the signal ends the shells of the job."""
    outside = workflow.root.parent
    command = f"trap 'kill 0' EXIT; {HELPER.format(outside)}{last}"
    workflow.init(of_one(workflow, command))
    assert workflow.call("run").returncode == code
    assert (outside / "starts").read_text() == "started\n"
    assert start_ticks(int((outside / "helper").read_text())) is None
    found = workflow.stage("stage-1")
    assert found["status"] == status
    assert status == "completed" or "exit code 3" in found["last_error"]


def test_command_whose_group_is_signalled_runs_again(
    workflow: Workflow,
) -> None:
    """After an external signal, the output is incomplete, so a second attempt runs."""
    outside = workflow.root.parent
    go = f'until [ -e "{outside}/go" ]; do sleep 0.05; done'
    begun = f'echo $BASHPID > "{outside}/pid.$BASHPID"'
    workflow.init(of_one(workflow, f"echo 1 > out.txt; {begun}; {go}; echo 2 >> out.txt"))
    workflow.succeed("dispatch", "stage-1")
    until(lambda: [*outside.glob("pid.*")])
    (place,) = outside.glob("pid.*")
    until(lambda: place.read_text().strip())
    os.killpg(os.getpgid(int(place.read_text())), signal.SIGTERM)
    (outside / "go").touch()
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n2\n"
    assert len(workflow.attempts("stage-1")) == 2
