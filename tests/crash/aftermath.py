"""Checks of a recovered workflow, whatever was killed before."""

from __future__ import annotations

from collections import Counter

from tests.crash.support import Workflow, unmarked

#: Maximum number of `rehydrate` and `run` calls before the recovery counts as failed.
_PATIENT = 3


def recover(workflow: Workflow) -> None:
    """Call `rehydrate` and `run` until the workflow is completed."""
    seen = []
    for _ in range(_PATIENT):
        workflow.succeed("rehydrate")
        done = workflow.call("run")
        if done.returncode == 0:
            return
        seen.append((done.returncode, done.stdout, done.stderr))
    raise AssertionError(f"it never came through: {seen}")


def check_chain(workflow: Workflow, *, lost: bool = False) -> None:
    """Check that the three stages of a chain are completed and each attempt ran its command once.

    With ``lost``, jobs were killed too, so a stage may have a second attempt.
    """
    for number in (1, 2, 3):
        check_stage(workflow, f"stage-{number}", number)
    starts = Counter(workflow.trace())
    assert set(starts.values()) == {1}, starts
    if not lost:
        assert sorted(starts) == [f"w-crash/stage-{n}/att-0001" for n in (1, 2, 3)]
    check_log(workflow)


def check_stage(workflow: Workflow, id_: str, value: int) -> None:
    """Check that a stage is completed without a retry and that its output is correct."""
    found = workflow.stage(id_)
    assert (found["status"], found["retry_count"], found["last_error"]) == ("completed", 0, None)
    assert (workflow.root / id_ / "out.txt").read_text() == f"{value}\n"
    newest = unmarked(workflow.attempts(id_)[-1].name)
    assert f"w-crash/{id_}/{newest}" in workflow.trace()


def check_log(workflow: Workflow) -> None:
    """Check that the log has no findings, the files match it, and no notice is missing."""
    workflow.succeed("replay", "--check")
    workflow.succeed("fsck")
    shown = (workflow.root / "progress.log").read_text()
    told = [line[2:] for line in workflow.said().splitlines() if line.startswith("  stage-")]
    assert [line for line in told if line not in shown] == []
