"""Sweeps (stages of many tasks) on the command line: runs, queries, failures, amendments."""

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


@pytest.mark.long
@pytest.mark.slow
def test_sweep_computes_each_point_once_and_writes_a_table(tmp_path: Path) -> None:
    """Each task gets a folder and a row of the table, and the next stage reads the table."""
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
def test_retry_computes_only_failed_tasks(tmp_path: Path) -> None:
    """After a task fails, the other tasks of the attempt continue."""
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


@pytest.mark.long
@pytest.mark.slow
def test_tolerated_failures_complete_the_stage(tmp_path: Path) -> None:
    """The stage completes, and `tasks --failed` still lists the failed task."""
    command = '[ "$WFCTL_PARAM_T,$WFCTL_PARAM_L" != 2,8 ]'
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID, command, tolerate=0.2))
    place.done("run")
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert place.done("tasks", "stage-1", "--failed")["chosen"] == 1
    table = place.call("-o", "csv", "metrics", "stage-1", "--where", "T>2")
    assert table.out.splitlines() == ["key,L,T,energy", '"L=8,T=3",8,3,3', '"L=16,T=3",16,3,3']


@pytest.mark.long
@pytest.mark.slow
def test_plan_apply_shows_the_number_of_tasks_to_compute(tmp_path: Path) -> None:
    """A dry run of `plan apply` shows the same impact as an amendment of the stage."""
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
def test_amendment_computes_only_added_points(tmp_path: Path) -> None:
    """Folders of removed points are kept; a new parameter recomputes all tasks."""
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
def test_changed_points_file_is_refused(tmp_path: Path) -> None:
    """wfctl launches no task, and the error names the changed points file."""
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
    "no points": ({"points": []}, "the map contains no points"),
    "two ways": ({"points": [{"T": 1}], "grid": {"T": [1]}}, "expected one of points"),
    "an unknown field": ({"gird": {"T": [1]}}, "map.gird"),
    "a point twice": ({"points": [{"T": 1}, {"T": 1.0}]}, "have the same values"),
    "no folder's name": ({"points": [{"T": "a/b"}]}, "cannot be the name of a folder"),
    "too many": ({"grid": {"T": {"from": 1, "to": 1000000}}}, "at most 100,000"),
    "lists of several lengths": ({"zip": {"T": [1, 2], "L": [8]}}, "the same length"),
    "a grid with a default": ({"grid": {"folder_name": [1]}}, "in only one place"),
    "an order by no value": ({"points": [{"T": 1}, {"L": 1}], "order": "W"}, "the names L, T"),
    "too many names": ({"points": [{f"T{n}": n} for n in range(1001)]}, "1,001 different names"),
    "a step that leads away": ({"grid": {"T": {"from": 1, "to": 0}}}, "cannot get from 1 to 0"),
    "a list in a point": ({"points": [{"T": [1]}]}, "a finite number"),
    "a column of the table": ({"points": [{"state": 1}]}, "is already a column"),
    "a parameter's name": ({"points": [{"task_outputs": 1}]}, "in only one place"),
    "a file without its digest": ({"file": "points.csv"}, "sha256"),
    "a file above the root": ({"file": "../points.csv", "sha256": "0" * 64}, "below the root"),
    "nobody to be like": ({"like": "stage-7"}, "depends_on"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_map_is_refused(tmp_path: Path, name: str) -> None:
    """`init` writes no file, and the error states the invalid field or the expected value."""
    map_, said = BAD[name]
    place = Place(tmp_path / "root")
    place.path.mkdir()
    stage = sweep(tmp_path / "trace", map_, folder_name=0)
    plan = {"workflow_id": "w-1", "purpose": "No.", "stages": [stage]}
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
def test_invalid_sweep_parameter_is_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    """The error of `init` names the invalid parameter."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    stage = sweep(tmp_path / "trace", {"points": [{"T": 1}]}, **more)
    plan = {"workflow_id": "w-1", "purpose": "No.", "stages": [stage]}
    answer = place.json("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert answer.code == 1
    assert f"parameters.{next(iter(more))}" in answer.out


def test_tasks_command_explains_missing_map_or_column(tmp_path: Path) -> None:
    """The error of `tasks` names `parameters.map`, or lists the columns of the sweep."""
    place = begun(tmp_path, sweep(tmp_path / "trace", GRID), {"id": "stage-2", "name": "None"})
    answer = place.json("tasks", "stage-2")
    assert answer.code != 0
    assert "parameters.map" in answer.error["message"]
    answer = place.json("tasks", "stage-1", "--where", "Z>2")
    assert (answer.code, "L, T" in answer.error["message"]) == (2, True)
    assert place.done("tasks", "stage-1")["counts"]["waiting"] == 6


@pytest.mark.long
@pytest.mark.slow
def test_many_scattered_failures_are_recorded(tmp_path: Path) -> None:
    """The event can hold number ranges that are longer than an id may be."""
    command = 'test "$((WFCTL_PARAM_T % 9))" -ne 0'
    map_ = {"grid": {"T": {"from": 1, "to": 120}}}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_, command, tolerate=0.5))
    place.done("run")
    [stage] = place.done("status")["stages"]
    assert (stage["status"], stage["tasks"]["failed"]) == ("completed", 13)
    assert len(lines(tmp_path / "trace")) == 107
    assert place.call("fsck", "--protocol").code == 0


def test_long_value_of_a_failed_point_is_shortened_in_the_log(tmp_path: Path) -> None:
    """The recorded error stays short, and later commands still work."""
    points = [{"T": 1, "sequence": "ACGT" * 6_250}]
    place = begun(
        tmp_path, sweep(tmp_path / "trace", {"points": points, "folders": "digest"}, "exit 3")
    )
    assert place.json("run").data["exit_reason"] == "blocked"
    [failed] = place.done("events", "--type", "stage.failed")
    assert len(failed["data"]["error"]) < 1_000
    assert place.json("rehydrate").code == 0


def test_points_file_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Spreadsheet programs write such a mark at the start of a CSV file."""
    content = b"\xef\xbb\xbfT\r\n1\r\n"
    place = Place(tmp_path / "root")
    place.path.mkdir()
    (place.path / "points.csv").write_bytes(content)
    map_ = {"file": "points.csv", "sha256": sha256(content).hexdigest()}
    plan = {"workflow_id": "w", "stages": [sweep(tmp_path / "trace", map_)]}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert place.json("run").data["exit_reason"] == "completed"
    assert lines(tmp_path / "trace") == ["T=1"]
