"""The files of an attempt are removed while its job and monitor run: nothing runs twice."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, find, strike
from tests.need import need_programs
from tests.rounds import first
from tests.sweeps.support import sweep

pytestmark = pytest.mark.slow

#: Commands that write a line outside the root at the start and the end of a job, so that parallel
#: runs are detected.
LIVES = (
    'echo "begin $WFCTL_ATTEMPT" >> {0}; sleep 4; echo x > out.txt; '
    'echo "end $WFCTL_ATTEMPT" >> {0}'
)
CLEANED = {
    "git clean": ["git", "clean", "-fd"],
    "git stash": ["git", "stash", "-u"],
    "rm": ["rm", "-rf", "stage-1"],
}


def stage_of(kind: str, trace: Path) -> dict[str, Any]:
    """Return a stage that runs for some seconds: one job, or a sweep of two tasks."""
    command = LIVES.format(trace)
    if kind == "sweep":
        made: dict[str, Any] = sweep(trace.with_name("ends"), {"grid": {"T": [1, 2]}}, command)
        return made
    return {
        "id": "stage-1",
        "name": "One",
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": command},
    }


def git(workflow: Workflow, *words: str) -> None:
    """Call git in the root with a fixed identity."""
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *own, *words], cwd=workflow.root, check=True, capture_output=True)


def in_git(workflow: Workflow) -> None:
    """Make the root a repository with one commit."""
    need_programs("git")
    git(workflow, "init", "-q")
    git(workflow, "commit", "-q", "--allow-empty", "-m", "begun")


def removed_beneath(workflow: Workflow, how: str, trace: Path) -> Counter[str]:
    """Run, remove the files of the running job, and run again.

    Return the number of starts of each attempt.
    """
    with ending(workflow.start("run")):
        until(trace.exists)
        strike(workflow, Victim.ORCHESTRATOR)
    subprocess.run(CLEANED[how], cwd=workflow.root, check=True, capture_output=True)
    until(lambda: not find(workflow, Victim.MONITOR))
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    lines = trace.read_text().splitlines()
    return Counter(line for line in lines if line.startswith("begin"))


@pytest.mark.long
@pytest.mark.parametrize("kind", first(["sweep", "stage"]))
@pytest.mark.parametrize("how", first(list(CLEANED), 2))
def test_files_that_are_removed_during_a_job_start_no_second_job(
    workflow: Workflow, how: str, kind: str
) -> None:
    """After `git clean`, the job continues. Without its folder, it is ended first."""
    trace = workflow.root.parent / "lives"
    in_git(workflow)
    workflow.init(stage_of(kind, trace))
    begun = removed_beneath(workflow, how, trace)
    assert max(begun.values()) == (2 if kind == "sweep" else 1), begun
    assert len(begun) == (2 if how == "rm" else 1), begun
