"""If a running sweep loses files, all tasks still end and finished tasks do not run again."""

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
    """Return the tasks whose result folders exist."""
    return {path.name for path in (workflow.root / "stage-1/tasks").glob("T=*")}


def begun(workflow: Workflow, map_: object, **parameters: object) -> Path:
    """Start a sweep, wait until four of its tasks have ended, and return the trace file."""
    trace = workflow.root.parent / "trace"
    # The other tasks wait for the file `go` or the end of their attempt, so the test does not
    # depend on the speed of the machine.
    may_go = f'[ -e {trace.parent}/go ] || [ ! -d "$WFCTL_TASKS" ]'
    command = f"{{ [ $WFCTL_PARAM_T -le 4 ] || until {may_go}; do sleep 0.1; done; }}"
    stage = sweep(trace, map_, command, at_once=2, **parameters)  # type: ignore[arg-type]
    workflow.init(stage)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: len(finished(workflow)) >= 4)
    return trace


def check_over(workflow: Workflow, trace: Path, done: set[str]) -> None:
    """Check that the sweep is complete and that no task in ``done`` ran a second time."""
    assert workflow.stage("stage-1")["status"] == "completed"
    assert finished(workflow) == EVERY
    counted = Counter(lines(trace))
    assert set(counted) == EVERY
    assert {key: counted[key] for key in done} == dict.fromkeys(done, 1)
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


@pytest.mark.long
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "orphaned"])
def test_moved_sweep_continues_without_repeating_finished_tasks(
    workflow: Workflow, watched: bool
) -> None:
    """After a move of the folder, old workers exit and a new attempt runs the other tasks."""
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


@pytest.mark.long
@pytest.mark.parametrize("way", ["deleted", "changed"])
def test_deleted_points_file_does_not_stop_a_running_sweep(workflow: Workflow, way: str) -> None:
    """wfctl uses the attempt's copy of the points file, but refuses a changed points file."""
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
        # Remove the records of ended tasks, as if each worker was killed before it wrote them.
        begun_only = [line for line in journal.read_text().splitlines(True) if line[0] != "e"]
        journal.write_text("".join(begun_only))
    (trace.parent / "go").touch()
    refused = workflow.call("run")
    if way == "changed":
        assert "has changed: its SHA-256 must be" in refused.stdout + refused.stderr
        assert workflow.committed("tasks.observed") == 1
        workflow.call("run")
        assert workflow.committed("tasks.observed") == 1
        file.write_text(text)
    workflow.succeed("run")
    check_over(workflow, trace, done)


def test_results_are_collected_after_the_points_file_is_deleted(workflow: Workflow) -> None:
    """A running sweep completes in one attempt although its points file was deleted."""
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
    """Return whether a job of an attempt has claimed its start and runs."""
    claims = workflow.root.glob(f"stage-1/.attempts/{attempt}-*/job-*.started/record")
    return any(claims) and bool(find(workflow, Victim.JOB))


def brought_back(workflow: Workflow, attempt: str) -> None:
    """Rehydrate the sweep, and wait for the first job of its new attempt."""
    workflow.succeed("rehydrate")
    until(lambda: has_begun(workflow, attempt))


def remove(folder: Path) -> None:
    """Delete a folder repeatedly until it is gone, as other processes may write to it."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(is_gone)


@pytest.mark.long
@pytest.mark.parametrize("hand", first([False, True]), ids=["found", "failed and retried by hand"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "all killed"])
@pytest.mark.parametrize("earlier", first([True, False]), ids=["second attempt", "first attempt"])
def test_finished_tasks_are_found_without_their_attempt_folder(
    workflow: Workflow, running: bool, hand: bool, earlier: bool
) -> None:
    """Marker files in the task folders name the finished tasks; only the others run."""
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
        # After a second lost attempt in a row, the stage fails, and the message names the retry
        # command.
        assert "wfctl stage retry stage-1" in workflow.call("run").stdout
    if hand or earlier:
        workflow.succeed("stage", "retry", "stage-1", "--fix", "none")
    workflow.succeed("run")
    check_over(workflow, trace, done)
    told = json.loads((workflow.root / "stage-1/tasks.json").read_bytes())["tasks"]
    assert all(one["outputs"] and one["metrics"] for one in told)


@pytest.mark.long
@pytest.mark.parametrize("left", [0.5, 0.0])
def test_finished_tasks_are_found_with_truncated_journals(workflow: Workflow, left: float) -> None:
    """If a worker's journal is cut off, wfctl uses the marker file in the task folder."""
    trace = begun(workflow, GRID)
    strike(workflow, Victim.EVERYTHING)
    done = finished(workflow)
    for journal in (workflow.root / "stage-1/.attempts").glob("*/tasks/journal.*"):
        content = journal.read_bytes()
        journal.write_bytes(content[: int(len(content) * left)])
    (trace.parent / "go").touch()
    workflow.succeed("run")
    check_over(workflow, trace, done)


@pytest.mark.long
@pytest.mark.parametrize(("content", "times"), [("old", 1), ("new", 2)])
def test_marker_is_valid_only_for_the_inputs_of_its_task(
    tmp_path: Path, content: str, times: int
) -> None:
    """After an input has changed, the finished tasks run again despite their markers."""
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


@pytest.mark.long
def test_finished_tasks_are_found_without_log_and_attempts(workflow: Workflow) -> None:
    """After an import from the state file and task folders alone, finished tasks are kept."""
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
def test_tasks_of_an_attempt_before_the_log_was_lost_are_kept(workflow: Workflow) -> None:
    """After an import of a running sweep, tasks that an earlier attempt finished are kept."""
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
    """Return the energy in each task folder's result, by the folder's name."""
    found = (workflow.root / "stage-1/tasks").glob("T=*/e.json")
    return {path.parent.name: json.loads(path.read_text())["e"] for path in found}


def swap_folders(workflow: Workflow) -> None:
    """Swap the folders of two finished tasks."""
    tasks = workflow.root / "stage-1/tasks"
    (tasks / "T=1").rename(tasks / "other")
    (tasks / "T=2").rename(tasks / "T=1")
    (tasks / "other").rename(tasks / "T=2")


def copy_folder(workflow: Workflow) -> None:
    """Copy the result folder of a finished task to a task that has not run."""
    shutil.copytree(workflow.root / "stage-1/tasks/T=1", workflow.root / "stage-1/tasks/T=9")


@pytest.mark.long
@pytest.mark.parametrize("are_attempts_lost", [False, True], ids=["running", "attempts lost"])
@pytest.mark.parametrize("damage", [swap_folders, copy_folder])
def test_folder_with_results_of_another_task_is_rejected(
    workflow: Workflow, damage: Callable[[Workflow], None], are_attempts_lost: bool
) -> None:
    """The marker file in a folder names its task, so wfctl computes the wrong tasks again."""
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
