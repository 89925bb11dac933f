"""What must hold when all is over, whatever was killed."""

from __future__ import annotations

from collections import Counter

from tests.crash.support import Workflow, unmarked

#: How often somebody calls `rehydrate` and `run` before giving up.
_PATIENT = 3


def recover(workflow: Workflow) -> None:
    """Do what somebody does after a lost session, until the workflow is through."""
    seen = []
    for _ in range(_PATIENT):
        workflow.succeed("rehydrate")
        done = workflow.call("run")
        if done.returncode == 0:
            return
        seen.append((done.returncode, done.stdout, done.stderr))
    raise AssertionError(f"it never came through: {seen}")


def check_chain(workflow: Workflow, *, lost: bool = False) -> None:
    """Check that the three stages of a chain are completed, each command run once an attempt.

    ``lost`` says that jobs were killed too, so that a stage may have had a second attempt.
    """
    for number in (1, 2, 3):
        check_stage(workflow, f"stage-{number}", number)
    starts = Counter(workflow.trace())
    assert set(starts.values()) == {1}, starts
    if not lost:
        assert sorted(starts) == [f"w-crash/stage-{n}/att-0001" for n in (1, 2, 3)]
    check_log(workflow)


def check_stage(workflow: Workflow, id_: str, value: int) -> None:
    """Check that a stage is completed without a retry, and its output right."""
    found = workflow.stage(id_)
    assert (found["status"], found["retry_count"], found["last_error"]) == ("completed", 0, None)
    assert (workflow.root / id_ / "out.txt").read_text() == f"{value}\n"
    newest = unmarked(workflow.attempts(id_)[-1].name)
    assert f"w-crash/{id_}/{newest}" in workflow.trace()


def check_log(workflow: Workflow) -> None:
    """Check that the chain is whole, the files show it, and nothing acknowledged is lost."""
    workflow.succeed("replay", "--check")
    workflow.succeed("fsck")
    shown = (workflow.root / "progress.log").read_text()
    told = [line[2:] for line in workflow.said().splitlines() if line.startswith("  stage-")]
    assert [line for line in told if line not in shown] == []
