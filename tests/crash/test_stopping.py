"""Attempts that are ended from the command line: job and monitor, and nobody beside them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from reconciler.host import processes
from reconciler.host.program import is_held
from tests.crash.aftermath import check_log
from tests.crash.support import Workflow, ending, stage, until
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.slow

#: A job of several processes, one of which leaves its folder.
WORK = "(cd / && sleep 300) & sleep 300 & wait; echo 1 > out.txt"


@pytest.fixture
def running(workflow: Workflow) -> Iterator[Workflow]:
    """Launch a stage whose job takes minutes."""
    workflow.init(stage("stage-1", WORK))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    yield workflow
    strike(workflow, Victim.EVERYTHING)


def at_work(workflow: Workflow) -> bool:
    """Say whether a process works below the root, or holds a lock of the attempt."""
    folder = workflow.attempts("stage-1")[0]
    locks = [workflow.root / "stage-1/.monitor.lock", *folder.glob("job-*.lock")]
    below = processes.below(processes.census(), workflow.root / "stage-1")
    return bool(below) or any(is_held(lock) for lock in locks)


def test_a_failure_that_stops_ends_every_process_of_the_attempt(running: Workflow) -> None:
    """Also the one that works elsewhere by now; a neighbour in the root goes on."""
    with ending(subprocess.Popen(["sleep", "60"], cwd=running.root, text=True)) as neighbour:
        running.succeed("stage", "fail", "stage-1", "--error", "too long", "--stop")
        assert not at_work(running)
        assert neighbour.poll() is None
    assert running.stage("stage-1")["status"] == "failed"
    [stopped] = running.events("attempt.stopped")
    assert len(stopped["data"]["ended"]) >= 3
    check_log(running)


def test_a_cancelled_stage_stays_failed_and_starts_nothing_again(running: Workflow) -> None:
    """What was killed by will is no lost job."""
    running.succeed("stage", "cancel", "stage-1", "--reason", "wrong input")
    running.succeed("rehydrate")
    found = running.stage("stage-1")
    assert (found["status"], found["last_error"]) == ("failed", "cancelled: wrong input")
    assert running.trace() == ["w-crash/stage-1/att-0001"]


def test_a_dry_run_says_so_and_ends_nothing(running: Workflow) -> None:
    """The plan is the event alone."""
    said = running.succeed("stage", "cancel", "stage-1", "--dry-run", "-o", "json")
    assert [one["data"]["stop"] for one in json.loads(said)["data"]["events"]] == [True]
    assert at_work(running)


def test_the_same_command_again_stops_once(running: Workflow) -> None:
    """The first answer comes back."""
    again = ("stage", "cancel", "stage-1", "--command-id", "enough")
    running.succeed(*again)
    assert json.loads(running.succeed(*again, "-o", "json"))["data"]["repeated"]
    assert running.committed("attempt.stopped") == 1


def test_what_a_dead_command_left_running_the_next_session_stops(running: Workflow) -> None:
    """The failure was recorded, and anyone who was to end the attempt died."""
    data = {"stage": "stage-1", "error": "too long", "stop": True}
    running.succeed("append", "stage.failed", "--data", json.dumps(data))
    assert at_work(running)
    running.succeed("rehydrate")
    assert not at_work(running)
    assert running.committed("attempt.stopped") == 1


def test_a_stage_that_runs_again_ends_the_attempt_that_nobody_saw_end(running: Workflow) -> None:
    """It was called failed while it ran: two computations at once never happen."""
    running.succeed("stage", "fail", "stage-1", "--error", "looks wrong")
    assert at_work(running)
    running.succeed("stage", "retry", "stage-1", "--fix", "another look")
    running.succeed("dispatch", "stage-1")
    until(lambda: len(running.trace()) == 2)
    inside = processes.below(processes.census(), running.attempts("stage-1")[0])
    assert inside == ()
    running.succeed("stage", "cancel", "stage-1")


def test_a_job_that_comes_late_does_not_start_its_command(running: Workflow) -> None:
    """Submitted before the attempt was stopped, started after: it finds the way barred."""
    folder = running.attempts("stage-1")[0]
    [script] = folder.glob("work/*/.*.sub")
    text = script.read_text()
    running.succeed("stage", "cancel", "stage-1")
    for claim in folder.glob("job-*.started"):
        claim.rename(folder / "aside")
    script.write_text(text)
    done = subprocess.run(["bash", script.name], cwd=script.parent, check=False)
    assert done.returncode == 75
    assert len(running.trace()) == 1
