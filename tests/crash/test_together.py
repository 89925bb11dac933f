"""Several commands at once on one root: one of them does it, the others see it."""

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
    """Wait for every process; return their exit codes in order of size."""
    for process in processes:
        process.wait(PATIENCE)
    return sorted(process.returncode for process in processes)


@pytest.mark.long
def test_of_two_runs_at_once_one_runs_and_the_other_says_so(workflow: Workflow) -> None:
    """The second leaves with 4 and names the lock; the workflow completes."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as one, ending(workflow.start("run")) as other:
        assert ends([one, other]) == [0, 4]
    assert "another loop drives this workflow" in workflow.said()
    check_chain(workflow)


def test_two_rehydrates_at_once_attach_one_monitor(workflow: Workflow) -> None:
    """With the session dead and the job alive both exit 0, and the job runs once."""
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
def test_rehydrates_beside_a_run_disturb_nothing(workflow: Workflow) -> None:
    """Called again and again while a run is at work, each exits 0 and no attempt is added."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as run:
        while run.poll() is None:
            workflow.succeed("rehydrate")
        assert run.returncode == 0, workflow.said()
    assert workflow.committed("attempt.relaunched") == 0
    check_chain(workflow)


@pytest.mark.long
def test_waits_beside_a_run_end_with_the_attempt(workflow: Workflow) -> None:
    """Anyone who waits for a stage that a run drives is told its end."""
    workflow.init(stage("stage-1", WAITING))
    with ending(workflow.start("run")) as run:
        assert awaited(WINDOWS["the launch is recorded"], workflow, run)
        with ending(workflow.start("wait", "stage-1")) as waiter:
            assert workflow.call("wait", "stage-1", "--timeout", "0.5").returncode == 1
            (workflow.root / "go").touch()
            assert ends([run, waiter]) == [0, 0]
    check_stage(workflow, "stage-1", 1)
    check_log(workflow)


def test_a_wait_replaces_monitors_that_die_under_it(workflow: Workflow) -> None:
    """Twice the monitor is killed, and the wait ends when the job has, with its result."""
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
    """Kill the monitor, and see that another one has taken its place."""
    record = workflow.attempts("stage-1")[0] / "monitor.json"
    before = record.read_text()
    strike(workflow, Victim.MONITOR)
    until(lambda: workflow.committed("attempt.relaunched") == number)
    until(lambda: record.read_text() != before)
