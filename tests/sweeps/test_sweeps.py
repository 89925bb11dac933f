"""A stage of many tasks, through the command line: run, asked about, failed, amended."""

from __future__ import annotations

import csv
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, tree, write_plan
from tests.sweeps.support import amended, begun, lines, sweep

GRID = {"grid": {"T": [1, 2, 3], "L": [8, 16]}}
KEYS = sorted(f"L={size},T={t}" for size in (8, 16) for t in (1, 2, 3))


@pytest.mark.slow
def test_each_point_is_computed_once_and_the_next_stage_reads_the_table(tmp_path: Path) -> None:
    """A folder for each task, one row in the table, numbers by name."""
    gather = {
        "id": "stage-2",
        "name": "Gather",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/tasks.csv"],
        "outputs": ["stage-2/rows.txt"],
        "parameters": {"command": "grep -c =1, ../stage-1/tasks.csv > rows.txt || true"},
    }
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID), gather)
    place.done("run")
    assert lines(tmp_path / "trace") == KEYS
    with (place.path / "stage-1/tasks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["key"] for row in rows) == KEYS
    assert {row["energy"] for row in rows if row["T"] == "2"} == {"2"}
    assert json.loads((place.path / "stage-1/tasks/L=8,T=3/e.json").read_text()) == {"e": 3}
    assert (place.path / "stage-2/rows.txt").exists()
    assert place.done("status")["stages"][0]["tasks"]["done"] == 6
    assert place.call("fsck", "--protocol").code == 0
    assert place.call("replay", "--check").code == 0


@pytest.mark.slow
def test_a_failure_is_that_tasks_alone_and_is_computed_again_alone(tmp_path: Path) -> None:
    """The others of its attempt go on; a retry computes what is not done."""
    command = (
        f'{{ [ "$WFCTL_PARAM_T" != 2 ] || [ -e {tmp_path}/well ] || {{ echo sad >&2; exit 3; }}; }}'
    )
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID, command))
    answer = place.json("run")
    assert answer.code == 6, answer
    assert place.done("status")["stages"][0]["tasks"]["failed"] == 2
    failed = place.done("tasks", "stage-1", "--failed")
    assert [row["exit_code"] for row in failed["tasks"]] == [3, 3]
    assert failed["total"] == 6
    said = place.done("logs", "stage-1", "--task", "L=8,T=2", "--err")
    assert said["text"] == "sad\n"
    (tmp_path / "well").touch()
    place.done("stage", "retry", "stage-1", "--fix", "The reservoir was filled up.")
    place.done("run")
    assert lines(tmp_path / "trace") == KEYS


@pytest.mark.slow
def test_a_share_of_failures_is_tolerated_where_the_definition_says_so(tmp_path: Path) -> None:
    """It is told, and the stage is completed."""
    command = '[ "$WFCTL_PARAM_T,$WFCTL_PARAM_L" != 2,8 ]'
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID, command, tolerate=0.2))
    place.done("run")
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert place.done("tasks", "stage-1", "--failed")["chosen"] == 1
    table = place.call("-o", "csv", "metrics", "stage-1", "--where", "T>2")
    assert table.out.splitlines() == ["key,L,T,energy", '"L=8,T=3",8,3,3', '"L=16,T=3",16,3,3']


@pytest.mark.slow
def test_a_plan_that_is_applied_says_how_many_tasks_it_computes(tmp_path: Path) -> None:
    """As the amendment of one stage does."""
    stage = sweep(tmp_path / "trace", GRID)
    place = begun(tmp_path, stage)
    place.done("run")
    stage["parameters"]["map"] = {"grid": {"L": [8, 16], "T": [2, 3, 4]}}
    edited = {"workflow_id": "sweep-2026-11-23", "purpose": "Many.", "stages": [stage]}
    file = str(write_plan(tmp_path, edited))
    dry = place.done("plan", "apply", file, "--reason", "more", "--dry-run")
    ahead = dry["impact"]["tasks"]["stage-1"]
    assert (ahead["kept"], ahead["computed"], ahead["set_aside"]) == (4, 2, 2)


@pytest.mark.long
@pytest.mark.slow
def test_points_that_an_amendment_adds_are_computed_alone(tmp_path: Path) -> None:
    """Those that it takes out keep their folders; a change that all rest on computes all."""
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID))
    place.done("run")
    told = amended(place, map={"grid": {"L": [8, 16], "T": [2, 3, 4]}})
    ahead = told["impact"]["tasks"]["stage-1"]
    assert ahead.pop("seconds") > 0
    assert ahead == {"kept": 4, "computed": 2, "set_aside": 2}
    assert told["impact"]["seconds_thrown_away"] == {}
    place.done("run")
    assert lines(tmp_path / "trace") == sorted([*KEYS, "L=16,T=4", "L=8,T=4"])
    kept = sorted(path.name for path in (place.path / "stage-1.v1/tasks").iterdir())
    assert kept == ["L=16,T=1", "L=8,T=1"]
    assert len(list((place.path / "stage-1/tasks").iterdir())) == 6
    amended(place, flavour="new")
    place.done("run")
    assert len(lines(tmp_path / "trace")) == 6 + 2 + 6
    assert place.call("fsck", "--protocol").code == 0


@pytest.mark.slow
def test_a_file_of_points_is_taken_as_the_definition_names_it(tmp_path: Path) -> None:
    """A change of it is refused by name before anything is launched."""
    text = "T,L\n1,8\n2.50,8\n"
    map_ = {"file": "points.csv", "sha256": sha256(text.encode()).hexdigest()}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_))
    (place.path / "points.csv").write_text(text + "3,8\n")
    answer = place.json("run")
    assert answer.code == 6, answer
    assert "points.csv" in answer.out + answer.err
    assert lines(tmp_path / "trace") == []
    (place.path / "points.csv").write_text(text)
    assert place.json("run").code in (0, 6)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no points": ({"points": []}, "it has no points"),
    "two ways": ({"points": [{"T": 1}], "grid": {"T": [1]}}, "expected one of points"),
    "an unknown field": ({"gird": {"T": [1]}}, "map.gird"),
    "a point twice": ({"points": [{"T": 1}, {"T": 1.0}]}, "one and the same"),
    "no folder's name": ({"points": [{"T": "a/b"}]}, "cannot be the name of a folder"),
    "too many": ({"grid": {"T": {"from": 1, "to": 1000000}}}, "100,000 at most"),
    "lists of several lengths": ({"zip": {"T": [1, 2], "L": [8]}}, "one length"),
    "names that differ": ({"points": [{"T": 1}, {"L": 1}]}, "expected values for T"),
    "a step that leads away": ({"grid": {"T": {"from": 1, "to": 0}}}, "never leads"),
    "a list in a point": ({"points": [{"T": [1]}]}, "a finite number"),
    "a column of the table": ({"points": [{"state": 1}]}, "is a column"),
    "a parameter's name": ({"points": [{"task_outputs": 1}]}, "expected it in one place"),
    "a file without its digest": ({"file": "points.csv"}, "sha256"),
    "a file above the root": ({"file": "../points.csv", "sha256": "0" * 64}, "below the root"),
    "nobody to be like": ({"like": "stage-7"}, "depends_on"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_map_that_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    """With the place and what was expected."""
    map_, said = BAD[name]
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w-1", "purpose": "No.", "stages": [sweep(tmp_path / "trace", map_)]}
    before = tree(place.path)
    answer = place.json("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert answer.code == 1
    assert said in answer.out
    assert tree(place.path) == before


@pytest.mark.parametrize(
    "more",
    [{"tolerate": 1}, {"at_once": 0}, {"task_retries": -1}, {"metrics": {"e": "e.txt"}}],
    ids=lambda more: next(iter(more)),
)
def test_what_stands_beside_a_map_is_checked(tmp_path: Path, more: dict[str, Any]) -> None:
    """By its name."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    stage = sweep(tmp_path / "trace", {"points": [{"T": 1}]}, **more)
    plan = {"workflow_id": "w-1", "purpose": "No.", "stages": [stage]}
    answer = place.json("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert answer.code == 1
    assert f"parameters.{next(iter(more))}" in answer.out


def test_questions_to_a_stage_without_tasks_are_answered_by_what_is_missing(tmp_path: Path) -> None:
    """And a condition on what is no column by the columns that there are."""
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID), {"id": "stage-2", "name": "None"})
    answer = place.json("tasks", "stage-2")
    assert answer.code != 0
    assert "parameters.map" in answer.error["message"]
    answer = place.json("tasks", "stage-1", "--where", "Z>2")
    assert (answer.code, "L, T" in answer.error["message"]) == (2, True)
    assert place.done("tasks", "stage-1")["counts"]["waiting"] == 6


@pytest.mark.slow
def test_many_scattered_failures_are_recorded(tmp_path: Path) -> None:
    """The places of those that are done take more letters than an id may have."""
    command = 'test "$((WFCTL_PARAM_T % 9))" -ne 0'
    map_ = {"grid": {"T": {"from": 1, "to": 120}}}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_, command, tolerate=0.5))
    place.done("run")
    [stage] = place.done("status")["stages"]
    assert (stage["status"], stage["tasks"]["failed"]) == ("completed", 13)
    assert len(lines(tmp_path / "trace")) == 107
    assert place.call("fsck", "--protocol").code == 0


def test_a_failed_task_of_a_point_with_a_long_text_is_told_in_few_words(tmp_path: Path) -> None:
    """What its point holds is cut where the log tells of it, and every later command works."""
    points = [{"T": 1, "sequence": "ACGT" * 6_250}]
    place = begun(
        tmp_path, sweep(tmp_path / "trace", {"points": points, "folders": "digest"}, "exit 3")
    )
    assert place.json("run").data["exit_reason"] == "blocked"
    [failed] = place.done("events", "--type", "stage.failed")
    assert len(failed["data"]["error"]) < 1_000
    assert place.json("rehydrate").code == 0


def test_a_file_of_points_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Spreadsheets write one before CSV."""
    content = b"\xef\xbb\xbfT\r\n1\r\n"
    place = Place(tmp_path / "root")
    place.path.mkdir()
    (place.path / "points.csv").write_bytes(content)
    map_ = {"file": "points.csv", "sha256": sha256(content).hexdigest()}
    plan = {"workflow_id": "w", "stages": [sweep(tmp_path / "trace", map_)]}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert place.json("run").data["exit_reason"] == "completed"
    assert lines(tmp_path / "trace") == ["T=1"]
