"""A sweep of which something is lost while it runs: all tasks come to an end, none twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import sha256
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


@pytest.mark.parametrize("way", ["deleted", "changed"])
def test_a_file_of_points_that_is_gone_once_it_runs_holds_up_nothing(
    workflow: Workflow, way: str
) -> None:
    """The attempt has a copy of what the definition names; a new one is refused a changed file."""
    text = "T\n" + "".join(f"{n}\n" for n in range(1, TASKS + 1))
    file = workflow.root / "points.csv"
    file.write_text(text)
    named = {"file": "points.csv", "sha256": sha256(text.encode()).hexdigest()}
    trace = begun(workflow, named)
    file.unlink()
    if way == "changed":
        file.write_text(f"{text}99\n")
    strike(workflow, Victim.EVERYTHING)
    done = finished(workflow)
    (trace.parent / "go").touch()
    refused = workflow.call("run")
    if way == "changed":
        assert "expected the points with SHA-256" in refused.stderr
        file.write_text(text)
    workflow.succeed("run")
    check_over(workflow, trace, done)


def test_what_was_computed_of_points_whose_file_is_gone_is_collected(workflow: Workflow) -> None:
    """All tasks ended after the file was deleted."""
    text = "T\n" + "".join(f"{n}\n" for n in range(1, TASKS + 1))
    file = workflow.root / "points.csv"
    file.write_text(text)
    trace = begun(workflow, {"file": "points.csv", "sha256": sha256(text.encode()).hexdigest()})
    file.unlink()
    (trace.parent / "go").touch()
    workflow.succeed("run")
    check_over(workflow, trace, EVERY)
    assert workflow.committed("attempt.started") == 1
