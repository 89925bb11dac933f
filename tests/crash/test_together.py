"""Several commands at the same time in one root: one acts, and the others see the result."""

from __future__ import annotations

import subprocess

import pytest

from tests.crash.aftermath import check_chain, check_log, check_stage, recover
from tests.crash.moments import WINDOWS, awaited
from tests.crash.support import PATIENCE, Workflow, chain, ending, stage, until
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.slow

WAITING = "while [ ! -e ../../../../../../go ]; do sleep 0.05; done; echo 1 > out.txt"


def ends(processes: list[subprocess.Popen[str]]) -> list[int]:
    """Wait for every process, and return the exit codes in ascending order."""
    for process in processes:
        process.wait(PATIENCE)
    return sorted(process.returncode for process in processes)


@pytest.mark.long
def test_second_run_at_the_same_time_is_refused(workflow: Workflow) -> None:
    """The second `run` exits with code 4 and names the active run. The workflow completes."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as one, ending(workflow.start("run")) as other:
        assert ends([one, other]) == [0, 4]
    assert "another run of this workflow is active" in workflow.said()
    check_chain(workflow)


@pytest.mark.long
def test_two_rehydrates_start_one_monitor(workflow: Workflow) -> None:
    """After a kill of the session, two calls of `rehydrate` start only one monitor."""
    workflow.init(stage("stage-1", WAITING))
    with ending(workflow.start("run")) as run:
        assert awaited(WINDOWS["the launch is recorded"], workflow, run)
        until(lambda: any(workflow.root.glob("stage-1/.attempts/*/work/*/*.json")))
        strike(workflow, Victim.SESSION)
    with ending(workflow.start("rehydrate")) as one, ending(workflow.start("rehydrate")) as other:
        assert ends([one, other]) == [0, 0]
    assert workflow.committed("attempt.relaunched") == 1
    (workflow.root / "go").touch()
    recover(workflow)
    check_stage(workflow, "stage-1", 1)
    assert workflow.trace() == ["w-crash/stage-1/att-0001"]
    check_log(workflow)


@pytest.mark.long
def test_rehydrate_does_not_disturb_a_run(workflow: Workflow) -> None:
    """`rehydrate` succeeds repeatedly during a run, and adds no attempt."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as run:
        while run.poll() is None:
            workflow.succeed("rehydrate")
        assert run.returncode == 0, workflow.said()
    assert workflow.committed("attempt.relaunched") == 0
    check_chain(workflow)


@pytest.mark.long
def test_wait_ends_with_the_attempt_of_another_run(workflow: Workflow) -> None:
    """`wait` ends when the stage ends, even if another process runs the stage."""
    workflow.init(stage("stage-1", WAITING))
    with ending(workflow.start("run")) as run:
        assert awaited(WINDOWS["the launch is recorded"], workflow, run)
        with ending(workflow.start("wait", "stage-1")) as waiter:
            assert workflow.call("wait", "stage-1", "--timeout", "0.5").returncode == 1
            (workflow.root / "go").touch()
            assert ends([run, waiter]) == [0, 0]
    check_stage(workflow, "stage-1", 1)
    check_log(workflow)


@pytest.mark.long
def test_wait_replaces_killed_monitors(workflow: Workflow) -> None:
    """`wait` starts a new monitor after each of two kills, and ends with the job."""
    workflow.init(stage("stage-1", WAITING))
    workflow.succeed("dispatch", "stage-1")
    with ending(workflow.start("wait", "stage-1")) as waiter:
        for number in (1, 2):
            kill_monitor(workflow, number)
        (workflow.root / "go").touch()
        assert ends([waiter]) == [0]
    assert workflow.stage("stage-1")["status"] == "post_processing"
    assert workflow.trace() == ["w-crash/stage-1/att-0001"]
    recover(workflow)
    check_stage(workflow, "stage-1", 1)


def kill_monitor(workflow: Workflow, number: int) -> None:
    """Kill the monitor, and wait until another monitor has replaced it."""
    record = workflow.attempts("stage-1")[0] / "monitor.json"
    before = record.read_text()
    strike(workflow, Victim.MONITOR)
    until(lambda: workflow.committed("attempt.relaunched") == number)
    until(lambda: record.read_text() != before)
