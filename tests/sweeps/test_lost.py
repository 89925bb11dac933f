"""A sweep of which something is lost while it runs: all tasks come to an end, none twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, find, strike
from tests.sweeps.support import lines, sweep

pytestmark = pytest.mark.slow

TASKS = 12
GRID = {"grid": {"T": {"from": 1, "to": TASKS}}}
EVERY = {f"T={n}" for n in range(1, TASKS + 1)}


def finished(workflow: Workflow) -> set[str]:
    """Return the tasks whose folders are in place."""
    return {path.name for path in (workflow.root / "stage-1/tasks").glob("T=*")}


def begun(workflow: Workflow, map_: object, **parameters: object) -> Path:
    """Dispatch a sweep and let some of its tasks end; return what they leave their lines in."""
    trace = workflow.root.parent / "trace"
    command = f"{{ [ $WFCTL_PARAM_T -le 4 ] || [ -e {trace.parent}/go ] || sleep 2; }}"
    stage = sweep(trace, map_, command, at_once=2, **parameters)  # type: ignore[arg-type]
    workflow.init(stage)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: len(finished(workflow)) >= 4)
    return trace


def check_over(workflow: Workflow, trace: Path, done: set[str]) -> None:
    """The stage is completed, each task ended, and none of those that were done ran again."""
    assert workflow.stage("stage-1")["status"] == "completed"
    assert finished(workflow) == EVERY
    counted = Counter(lines(trace))
    assert set(counted) == EVERY
    assert {key: counted[key] for key in done} == dict.fromkeys(done, 1)
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "orphaned"])
def test_a_sweep_whose_root_was_moved_has_succeeded_once_every_task_has(
    workflow: Workflow, watched: bool
) -> None:
    """Its workers find nothing in the place that they know, and end well; their tasks remain."""
    trace = begun(workflow, GRID)
    if not watched:
        strike(workflow, Victim.SESSION)
    there = replace(workflow, root=workflow.root.with_name("elsewhere"))
    workflow.root.rename(there.root)
    done = finished(there)
    until(lambda: not find(there, Victim.JOB))
    (trace.parent / "go").touch()
    there.succeed("--root-is", "moved", "rehydrate")
    assert there.stage("stage-1")["status"] == "running"
    there.succeed("run")
    check_over(there, trace, done)
