"""Commands that end an attempt stop its job and its monitor, but no other process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from reconciler.host import processes
from reconciler.host.file_locks import is_lock_held
from tests.crash.aftermath import check_log
from tests.crash.support import Workflow, ending, stage, until
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.slow

#: Command of a job with several processes, one of which changes to another folder.
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
    """Return whether a process runs below the stage folder or holds a lock of the attempt."""
    folder = workflow.attempts("stage-1")[0]
    locks = [workflow.root / "stage-1/.monitor.lock", *folder.glob("job-*.lock")]
    below = processes.find_processes_below(
        processes.list_user_processes(), workflow.root / "stage-1"
    )
    return bool(below) or any(is_lock_held(lock) for lock in locks)


def test_fail_with_stop_ends_every_process_of_the_attempt(running: Workflow) -> None:
    """`stage fail --stop` kills all processes of the attempt and no other process."""
    with ending(subprocess.Popen(["sleep", "60"], cwd=running.root, text=True)) as neighbour:
        running.succeed("stage", "fail", "stage-1", "--error", "too long", "--stop")
        assert not at_work(running)
        assert neighbour.poll() is None
    assert running.stage("stage-1")["status"] == "failed"
    [stopped] = running.events("attempt.stopped")
    assert len(stopped["data"]["ended"]) >= 3
    check_log(running)


def test_cancelled_stage_stays_failed(running: Workflow) -> None:
    """`rehydrate` does not treat the cancelled job as lost, so it starts no new attempt."""
    running.succeed("stage", "cancel", "stage-1", "--reason", "wrong input")
    running.succeed("rehydrate")
    found = running.stage("stage-1")
    assert (found["status"], found["last_error"]) == ("failed", "cancelled: wrong input")
    assert running.trace() == ["w-crash/stage-1/att-0001"]


def test_dry_run_of_a_cancel_ends_nothing(running: Workflow) -> None:
    """`stage cancel --dry-run` prints the planned event, and the job continues."""
    said = running.succeed("stage", "cancel", "stage-1", "--dry-run", "-o", "json")
    assert [one["data"]["stop"] for one in json.loads(said)["data"]["events"]] == [True]
    assert at_work(running)


def test_repeated_cancel_stops_once(running: Workflow) -> None:
    """If the command id is repeated, wfctl returns the first answer and stops nothing."""
    again = ("stage", "cancel", "stage-1", "--command-id", "enough")
    running.succeed(*again)
    assert json.loads(running.succeed(*again, "-o", "json"))["data"]["repeated"]
    assert running.committed("attempt.stopped") == 1


def test_next_session_ends_the_attempt_of_a_killed_command(running: Workflow) -> None:
    """If the killed command recorded the failure, `rehydrate` stops the attempt."""
    data = {"stage": "stage-1", "error": "too long", "stop": True}
    running.succeed("append", "stage.failed", "--data", json.dumps(data))
    assert at_work(running)
    running.succeed("rehydrate")
    assert not at_work(running)
    assert running.committed("attempt.stopped") == 1


@pytest.mark.long
def test_retry_ends_the_unfinished_previous_attempt(running: Workflow) -> None:
    """A stage was marked as failed while its job ran. The retry stops that job first."""
    running.succeed("stage", "fail", "stage-1", "--error", "looks wrong")
    assert at_work(running)
    running.succeed("stage", "retry", "stage-1", "--fix", "another look")
    running.succeed("dispatch", "stage-1")
    until(lambda: len(running.trace()) == 2)
    inside = processes.find_processes_below(
        processes.list_user_processes(), running.attempts("stage-1")[0]
    )
    assert inside == ()
    running.succeed("stage", "cancel", "stage-1")


def test_job_that_starts_after_a_cancel_does_not_run_its_command(running: Workflow) -> None:
    """A job that was submitted before the cancel exits with code 75 without its command."""
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
