"""The first tasks of a sweep must succeed before its other tasks start."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, agree, write_plan
from tests.crash.outliving import solvers
from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.sweeps.looped import amended as amended_loop
from tests.sweeps.looped import give, plan
from tests.sweeps.support import amended, begun, ends, lines, sweep
from tests.sweeps.test_outliving import begin, through

#: Four points, of which T=2 is the first in the order of the map.
MAP: dict[str, Any] = {"points": [{"T": 2}, {"T": 1}, {"T": 3}, {"T": 4}], "first": 1}
KEYS = ["T=1", "T=2", "T=3", "T=4"]


def failing(folder: Path, *values: int) -> str:
    """Return a command that fails for the given points until the file ``well`` exists."""
    cases = "|".join(map(str, values))
    return f"{{ [ -e {folder}/well ] || case $WFCTL_PARAM_T in {cases}) exit 3;; esac; }}"


def attempts(place: Place) -> list[tuple[str, int]]:
    """Return the last verdict on each attempt of the sweep, and its number of tasks."""
    started = place.done("events", "--type", "attempt.started")
    seen = {
        e["data"]["attempt"]: e["data"] for e in place.done("events", "--type", "attempt.observed")
    }
    each = (one["data"] for one in started)
    return [(seen[one["attempt"]]["verdict"], one["tasks"]) for one in each]


def is_intact(place: Place) -> bool:
    """Return whether the log follows the rules and the state equals a replay of the log."""
    commands = (("fsck", "--protocol"), ("replay", "--check"))
    return all(place.call(*words).code == 0 for words in commands)


@pytest.mark.slow
def test_other_tasks_start_after_the_first_task_succeeded(tmp_path: Path) -> None:
    """A second attempt computes them automatically; it is neither a retry nor a lost attempt."""
    place = begun(tmp_path, sweep(tmp_path / "trace", MAP))
    said = "1 task first; 3 tasks start when it has succeeded"
    assert place.done("status")["stages"][0]["start"] == said
    assert said in place.call("status").out
    assert said in place.call("tasks", "stage-1").out
    place.done("run")
    assert attempts(place) == [("FIRST_TASKS_DONE", 1), ("TASKS_DONE", 3)]
    assert (next(ends(tmp_path)), lines(tmp_path / "trace")) == ("T=2", KEYS)
    [stage] = place.done("status")["stages"]
    assert (stage["status"], stage["retry_count"], "start" in stage) == ("completed", 0, False)
    assert "the first tasks (1 of 4) succeeded, so the others (3) can start" in place.log()
    assert "lost" not in place.log() + place.call("show", "stage-1").out
    assert is_intact(place)


@pytest.mark.slow
@pytest.mark.parametrize("tolerate", [0, 0.5])
def test_no_other_task_starts_after_the_first_task_failed(tmp_path: Path, tolerate: float) -> None:
    """The stage fails even if the plan tolerates failures; a retry starts with the same task."""
    stage = sweep(tmp_path / "trace", MAP, failing(tmp_path, 2), tolerate=tolerate)
    place = begun(tmp_path, stage)
    assert place.json("run").code == 6
    [stage] = place.done("status")["stages"]
    said = "exit 3 in task T=2; the first task failed, so 3 tasks were not started"
    assert (stage["status"], stage["last_error"]) == ("failed", said)
    assert (attempts(place), lines(tmp_path / "trace")) == ([("TASKS_FAILED", 1)], [])
    (tmp_path / "well").touch()
    place.done("stage", "retry", "stage-1", "--fix", "The command was corrected.")
    place.done("run")
    assert [count for _, count in attempts(place)] == [1, 1, 3]
    assert lines(tmp_path / "trace") == KEYS
    assert is_intact(place)


@pytest.mark.long
@pytest.mark.slow
def test_failed_task_after_the_first_tasks_can_be_tolerated(tmp_path: Path) -> None:
    """Only the first tasks must succeed."""
    stage = sweep(tmp_path / "trace", MAP, failing(tmp_path, 3), tolerate=0.5)
    place = begun(tmp_path, stage)
    place.done("run")
    assert attempts(place) == [("FIRST_TASKS_DONE", 1), ("TASKS_DONE", 3)]


@pytest.mark.long
@pytest.mark.slow
def test_first_task_without_its_number_has_failed(tmp_path: Path) -> None:
    """The numbers of a first task are read before the other tasks start."""
    stage = sweep(tmp_path / "trace", MAP, metrics={"energy": "e.json#/missing"})
    place = begun(tmp_path, stage)
    assert place.json("run").code == 6
    assert lines(tmp_path / "trace") == ["T=2"]
    assert "the first task failed" in place.done("status")["stages"][0]["last_error"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("retries", "code"), [(1, 6), (2, 0)])
def test_first_task_is_retried_before_it_has_failed(
    tmp_path: Path, retries: int, code: int
) -> None:
    """The task fails twice, so one retry is not enough, and two are."""
    count = tmp_path / "count"
    command = (
        f"{{ [ $WFCTL_PARAM_T != 2 ] || {{ echo >> {count}; [ $(wc -l < {count}) -gt 2 ]; }}; }}"
    )
    place = begun(tmp_path, sweep(tmp_path / "trace", MAP, command, task_retries=retries))
    assert place.json("run").code == code
    assert lines(tmp_path / "trace") == ([] if code else KEYS)
    assert [tasks for _, tasks in attempts(place)] == [1, 1] + ([] if code else [1, 3])
    assert is_intact(place)


@pytest.mark.long
@pytest.mark.slow
def test_one_of_several_first_tasks_stops_the_sweep(tmp_path: Path) -> None:
    """The retry computes only the first task that failed, because the other one is done."""
    stage = sweep(tmp_path / "trace", {**MAP, "first": 2}, failing(tmp_path, 1))
    place = begun(tmp_path, stage)
    assert place.json("run").code == 6
    assert lines(tmp_path / "trace") == ["T=2"]
    error = place.done("status")["stages"][0]["last_error"]
    assert error.endswith("1 of the 2 first tasks failed, so 2 tasks were not started")
    (tmp_path / "well").touch()
    place.done("stage", "retry", "stage-1", "--fix", "The command was corrected.")
    place.done("run")
    assert [tasks for _, tasks in attempts(place)] == [2, 1, 2]
    assert lines(tmp_path / "trace") == KEYS


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run",), ("dispatch", "stage-1", "--sync")], ids=" ".join)
def test_option_first_applies_to_a_plan_without_first_tasks(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """With --first, the command behaves as if the plan had the field."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2, 3, 4]}}))
    place.done(*words, "--first", "2")
    assert attempts(place)[:1] == [("FIRST_TASKS_DONE", 2)]
    place.done("run")
    assert [tasks for _, tasks in attempts(place)] == [2, 2]
    assert lines(tmp_path / "trace") == KEYS


def test_option_first_needs_a_sweep(tmp_path: Path) -> None:
    """The error states that the stage has no map."""
    stage = {"id": "stage-1", "name": "One", "parameters": {"command": "true"}}
    place = begun(tmp_path, stage)
    answer = place.json("dispatch", "stage-1", "--first", "1")
    assert (answer.code, "is not a sweep" in answer.error["message"]) == (2, True)


@pytest.mark.parametrize("first", [0, 1.5, "one", True])
def test_invalid_number_of_first_tasks_is_refused(tmp_path: Path, first: Any) -> None:
    """The error of `init` names the field."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    given = {"workflow_id": "w", "stages": [sweep(tmp_path / "trace", {**MAP, "first": first})]}
    answer = place.json("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    assert answer.code == 1
    assert "parameters.map.first: expected a whole number" in answer.error["message"]


def test_plan_check_and_approval_name_the_first_tasks(tmp_path: Path) -> None:
    """A person reads before the approval which tasks start first."""
    given = {"workflow_id": "w", "stages": [sweep(tmp_path / "trace", {**MAP, "first": 3})]}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    file = str(write_plan(tmp_path, given))
    said = "3 tasks first; 1 task starts when they have succeeded"
    assert said in place.call("plan", "check", file).out
    place.done("init", file)
    assert said in place.call("amend", "show", "plan").out


@pytest.mark.long
@pytest.mark.slow
def test_change_of_first_alone_computes_nothing(tmp_path: Path) -> None:
    """Neither the sweep nor the stage that reads its table is computed again."""
    reader = {
        "id": "stage-2",
        "name": "Read",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/tasks.csv"],
        "outputs": ["stage-2/rows.csv"],
        "parameters": {"command": f"cp ../stage-1/tasks.csv rows.csv; echo 2 >> {tmp_path}/read"},
    }
    place = begun(tmp_path, sweep(tmp_path / "trace", MAP), reader)
    place.done("run")
    told = amended(place, map={**MAP, "first": 2})
    assert told["impact"]["computed_again"] == {}
    assert "first_tasks" not in told["impact"]
    place.done("run")
    assert (lines(tmp_path / "trace"), lines(tmp_path / "read")) == (KEYS, ["2"])
    assert is_intact(place)


@pytest.mark.long
@pytest.mark.slow
def test_earlier_results_count_as_first_tasks(tmp_path: Path) -> None:
    """All new points start together, and a new command starts with one task."""
    place = begun(tmp_path, sweep(tmp_path / "trace", MAP))
    place.done("run")
    more = {**MAP, "points": [{"T": 0}, *MAP["points"], {"T": 5}]}
    assert "first_tasks" not in amended(place, map=more)["impact"]
    place.done("run")
    assert [tasks for _, tasks in attempts(place)] == [1, 3, 2]
    told = amended(place, flavour="new")
    said = "1 task first; 5 tasks start when it has succeeded"
    assert told["impact"]["first_tasks"] == {"stage-1": said}
    place.done("run")
    assert [tasks for _, tasks in attempts(place)] == [1, 3, 2, 1, 5]
    assert is_intact(place)


@pytest.mark.long
@pytest.mark.slow
def test_changed_check_of_tasks_starts_no_separate_trial(tmp_path: Path) -> None:
    """Existing results are checked together; new points start after that."""
    place = begun(tmp_path, sweep(tmp_path / "trace", MAP))
    place.done("run")
    more = {**MAP, "points": [*MAP["points"], {"T": 5}]}
    amended(place, map=more, task_verify="test -s e.json")
    place.done("run")
    assert [tasks for _, tasks in attempts(place)] == [1, 3, 0, 1]
    assert lines(tmp_path / "trace") == [*KEYS, "T=5"]


@pytest.mark.long
@pytest.mark.slow
def test_later_round_starts_no_separate_trial(tmp_path: Path) -> None:
    """The first tasks count over all rounds of a loop."""
    given = plan(tmp_path, is_last=True, at_most=2)
    given["stages"][0]["parameters"]["map"]["first"] = 1
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    give(tmp_path, 1, "x\n10\n20\n")
    give(tmp_path, 2, "x\n99\n")
    place.done("run")
    started = place.done("events", "--type", "attempt.started")
    counts = [e["data"]["tasks"] for e in started if e["data"]["stage"] == "run"]
    assert counts == [1, 1, 2]
    amended_loop(place, "--stage", "run", "--set", "parameters.command=exit 3")
    assert place.json("run").code == 6
    [run, _] = place.done("status")["stages"]
    assert run["last_error"].endswith("the first task failed, so 3 tasks were not started")


@pytest.mark.long
@pytest.mark.slow
def test_follower_starts_with_a_point_that_has_a_result(tmp_path: Path) -> None:
    """The task of a tolerated failure cannot succeed, so another task is the first one."""
    copied = 'cp "${WFCTL_LIKE_FOLDER:?}/e.json" f.json'
    follower = {
        "id": "stage-2",
        "name": "Follow",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/tasks.csv"],
        "outputs": ["stage-2/tasks.csv"],
        "parameters": {
            "command": f"{copied}; echo $WFCTL_TASK >> {tmp_path}/two",
            "map": {"like": "stage-1", "first": 1},
            "task_outputs": ["f.json"],
            "tolerate": 0.5,
        },
    }
    map_ = {"points": MAP["points"]}
    stage = sweep(tmp_path / "trace", map_, failing(tmp_path, 2), tolerate=0.5)
    place = begun(tmp_path, stage, follower)
    place.done("run")
    started = place.done("events", "--type", "attempt.started")
    counts = [e["data"]["tasks"] for e in started if e["data"]["stage"] == "stage-2"]
    assert counts == [1, 3]
    assert (tmp_path / "two").read_text().splitlines()[0] == "T=1"


@pytest.mark.slow
def test_approval_of_the_plan_covers_the_other_tasks(tmp_path: Path) -> None:
    """Nobody is asked again before the other tasks start."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    given = {"workflow_id": "w", "stages": [sweep(tmp_path / "trace", MAP)]}
    place.done("init", str(write_plan(tmp_path, given)))
    assert place.json("run").code == 6
    agree(place.path)
    place.done("run")
    assert lines(tmp_path / "trace") == KEYS
    assert str(place.path) not in {one["root"] for one in place.done("inbox")}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("victim", [Victim.EVERYTHING, Victim.MONITOR, Victim.ORCHESTRATOR])
@pytest.mark.parametrize("moment", ["attempt.started", "stage.launched", "tasks.observed"])
def test_kill_before_the_other_tasks_start(workflow: Workflow, moment: str, victim: Victim) -> None:
    """The next run continues, and computes the first task once unless it was interrupted."""
    outside = workflow.root.parent
    workflow.init(sweep(outside / "trace", MAP, "sleep 0.3"))
    with ending(workflow.start("run")) as run:
        until(lambda: workflow.committed(moment) >= 1 or run.poll() is not None)
        strike(workflow, victim)
        time.sleep(0.2)
        strike(workflow, Victim.EVERYTHING)
    finished = {path.name for path in (workflow.root / "stage-1/tasks").glob("T=*")}
    before = Counter(ends(outside))
    workflow.succeed("run")
    after = Counter(ends(outside))
    assert {key for key, count in after.items() if count > before[key]}.isdisjoint(finished)
    assert (next(ends(outside)), sorted(after)) == ("T=2", KEYS)
    verdicts = [one["data"]["verdict"] for one in workflow.events("attempt.observed")]
    assert "FIRST_TASKS_DONE" in verdicts
    assert workflow.stage("stage-1")["status"] == "completed"
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


@pytest.mark.long
@pytest.mark.slow
def test_person_judges_a_first_task_without_an_exit_code(workflow: Workflow) -> None:
    """The claim of a person completes the first task, and the next run starts the others."""
    map_ = {"points": [{"T": 1}, {"T": 2}], "first": 1}
    found = begin(workflow, other="echo 2 > out.txt", map=map_)
    through(workflow, found)
    assert workflow.call("run").returncode == 6
    assert workflow.events("attempt.observed")[-1]["data"]["verdict"] == "UNTOLD"
    answer = workflow.call("stage", "compute", "stage-1")
    assert "the first tasks (1 of 2) succeeded, so the others (1) can start" in answer.stderr
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert solvers(workflow) == found
    workflow.succeed("fsck", "--protocol")
