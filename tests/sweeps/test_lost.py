"""A sweep of which something is lost while it runs: all tasks come to an end, none twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, find, strike
from tests.rounds import first
from tests.sweeps import support
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
    # Whatever the machine does beside: they wait until they may go, or their attempt is gone.
    may_go = f'[ -e {trace.parent}/go ] || [ ! -d "$WFCTL_TASKS" ]'
    command = f"{{ [ $WFCTL_PARAM_T -le 4 ] || until {may_go}; do sleep 0.1; done; }}"
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


@pytest.mark.few(1)
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


@pytest.mark.few(1)
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
    for journal in (workflow.root / "stage-1/.attempts").glob("*/tasks/journal.*"):
        # As if each worker were killed before it wrote that its task had ended.
        begun_only = [line for line in journal.read_text().splitlines(True) if line[0] != "e"]
        journal.write_text("".join(begun_only))
    (trace.parent / "go").touch()
    refused = workflow.call("run")
    if way == "changed":
        assert "expected the points with SHA-256" in refused.stdout + refused.stderr
        assert workflow.committed("tasks.observed") == 1
        workflow.call("run")
        assert workflow.committed("tasks.observed") == 1
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


def has_begun(workflow: Workflow, attempt: str) -> bool:
    """Say whether a job of an attempt has claimed its start, and works."""
    claims = workflow.root.glob(f"stage-1/.attempts/{attempt}-*/job-*.started/record")
    return any(claims) and bool(find(workflow, Victim.JOB))


def brought_back(workflow: Workflow, attempt: str) -> None:
    """Bring a sweep back, and wait for the first job of its new attempt."""
    workflow.succeed("rehydrate")
    until(lambda: has_begun(workflow, attempt))


def remove(folder: Path) -> None:
    """Remove a folder into which others may write meanwhile."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(is_gone)


@pytest.mark.few(1)
@pytest.mark.parametrize("hand", first([False, True]), ids=["found", "failed and retried by hand"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "all killed"])
@pytest.mark.parametrize("earlier", first([True, False]), ids=["second attempt", "first attempt"])
def test_tasks_that_are_done_are_known_without_the_folder_of_their_attempt(
    workflow: Workflow, running: bool, hand: bool, earlier: bool
) -> None:
    """By the marks in their own folders; what remains is computed by a new attempt."""
    trace = begun(workflow, GRID)
    if earlier:
        strike(workflow, Victim.EVERYTHING)
        brought_back(workflow, "att-0002")
    if not running:
        strike(workflow, Victim.EVERYTHING)
    remove(workflow.root / "stage-1/.attempts")
    until(lambda: not find(workflow, Victim.JOB))
    done = finished(workflow)
    (trace.parent / "go").touch()
    if hand:
        workflow.succeed("stage", "fail", "stage-1", "--error", "its folder is gone")
    elif earlier:
        # A second loss in a row is a failure, and says how it goes on.
        assert "wfctl stage retry stage-1" in workflow.call("run").stdout
    if hand or earlier:
        workflow.succeed("stage", "retry", "stage-1", "--fix", "none")
    workflow.succeed("run")
    check_over(workflow, trace, done)
    told = json.loads((workflow.root / "stage-1/tasks.json").read_bytes())["tasks"]
    assert all(one["outputs"] and one["metrics"] for one in told)


@pytest.mark.few(1)
@pytest.mark.parametrize("left", [0.5, 0.0])
def test_tasks_that_are_done_are_known_where_the_journals_were_cut(
    workflow: Workflow, left: float
) -> None:
    """What a journal tells no more the folder of the task does."""
    trace = begun(workflow, GRID)
    strike(workflow, Victim.EVERYTHING)
    done = finished(workflow)
    for journal in (workflow.root / "stage-1/.attempts").glob("*/tasks/journal.*"):
        content = journal.read_bytes()
        journal.write_bytes(content[: int(len(content) * left)])
    (trace.parent / "go").touch()
    workflow.succeed("run")
    check_over(workflow, trace, done)


@pytest.mark.few(1)
@pytest.mark.parametrize(("content", "times"), [("old", 1), ("new", 2)])
def test_marks_count_for_what_their_tasks_were_computed_from(
    tmp_path: Path, content: str, times: int
) -> None:
    """Folders that lie in place and were computed from another input are computed again."""
    well = f"{{ [ $WFCTL_PARAM_T != {TASKS} ] || [ -e {tmp_path}/well ]; }}"
    stage = {**sweep(tmp_path / "trace", GRID, well), "inputs": ["in.txt"]}
    place = support.begun(tmp_path, stage)
    (place.path / "in.txt").write_text("old")
    assert place.json("run").code == 6
    (place.path / "in.txt").write_text(content)
    (tmp_path / "well").touch()
    shutil.rmtree(place.path / "stage-1/.attempts")
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    expected = dict.fromkeys(EVERY, times) | {f"T={TASKS}": 1}
    assert Counter(lines(tmp_path / "trace")) == expected


def test_tasks_that_are_done_are_known_without_log_and_attempt(workflow: Workflow) -> None:
    """Nothing is left but the folders of the tasks, and what the file of the state says."""
    trace = begun(workflow, GRID)
    strike(workflow, Victim.EVERYTHING)
    done = finished(workflow)
    remove(workflow.root / "stage-1/.attempts")
    remove(workflow.root / ".wfctl")
    (trace.parent / "go").touch()
    workflow.succeed("import", ".", "--consent", "trust")
    workflow.succeed("rehydrate")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "none")
    workflow.succeed("run")
    check_over(workflow, trace, done)


@pytest.mark.long
def test_tasks_of_an_attempt_that_only_the_lost_log_knew_count(workflow: Workflow) -> None:
    """What the attempt under way was not given was done by the one before it."""
    trace = begun(workflow, GRID)
    strike(workflow, Victim.EVERYTHING)
    done = finished(workflow)
    brought_back(workflow, "att-0002")
    remove(workflow.root / ".wfctl")
    workflow.succeed("import", ".", "--consent", "trust")
    (trace.parent / "go").touch()
    workflow.succeed("run")
    check_over(workflow, trace, done)
    assert workflow.committed("attempt.started") == 0


def energies(workflow: Workflow) -> dict[str, int]:
    """Return the energy of each task by the name of its folder."""
    found = (workflow.root / "stage-1/tasks").glob("T=*/e.json")
    return {path.parent.name: json.loads(path.read_text())["e"] for path in found}


def swap_folders(workflow: Workflow) -> None:
    """Give each of two finished tasks the folder of the other."""
    tasks = workflow.root / "stage-1/tasks"
    (tasks / "T=1").rename(tasks / "other")
    (tasks / "T=2").rename(tasks / "T=1")
    (tasks / "other").rename(tasks / "T=2")


def copy_folder(workflow: Workflow) -> None:
    """Copy the folder of a finished task to the place of a task that has not run."""
    shutil.copytree(workflow.root / "stage-1/tasks/T=1", workflow.root / "stage-1/tasks/T=9")


@pytest.mark.few(2)
@pytest.mark.parametrize("are_attempts_lost", [False, True], ids=["running", "attempts lost"])
@pytest.mark.parametrize("damage", [swap_folders, copy_folder])
def test_a_folder_with_the_results_of_another_task_is_not_believed(
    workflow: Workflow, damage: Callable[[Workflow], None], are_attempts_lost: bool
) -> None:
    """The mark in each folder names its task, and a folder in the place of another is no result."""
    trace = begun(workflow, GRID)
    if are_attempts_lost:
        strike(workflow, Victim.EVERYTHING)
        remove(workflow.root / "stage-1/.attempts")
    damage(workflow)
    (trace.parent / "go").touch()
    workflow.succeed("run")
    assert energies(workflow) == {f"T={n}": n for n in range(1, TASKS + 1)}
    assert set(lines(trace)) == EVERY
    workflow.succeed("verify", "--deep")
    workflow.succeed("fsck", "--protocol")
