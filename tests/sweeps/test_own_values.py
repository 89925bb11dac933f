"""Points with values of their own: keys, defaults, tables, files, loops and followers."""

from __future__ import annotations

import csv
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, call, write_plan
from tests.sweeps.looped import give, plan
from tests.sweeps.support import amended, begun, lines, sweep

POINTS: list[dict[str, Any]] = [{"T": 0.5, "width": 2.5}, {"T": 0.25}, {"T": 1}]
KEYS = ["T=0.25", "T=0.5,width=2.5", "T=1"]
#: Command that writes the width of each task into the file `w.json`.
WIDTH = 'echo "{\\"w\\": $WFCTL_PARAM_width}" > w.json'
METRICS = {"energy": "e.json#/e", "width_used": "w.json#/w"}


def _of_points(folder: Path) -> dict[str, Any]:
    return {"points": POINTS}


def _of_csv(folder: Path) -> dict[str, Any]:
    return _of_file(folder / "points.csv", "T,width\n0.5,2.5\n0.25,\n1,\n")


def _of_jsonl(folder: Path) -> dict[str, Any]:
    rows = [POINTS[0], {**POINTS[1], "width": None}, POINTS[2]]
    return _of_file(folder / "points.jsonl", "\n".join(map(json.dumps, rows)))


def _of_file(path: Path, text: str) -> dict[str, Any]:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return {"file": path.name, "sha256": sha256(text.encode()).hexdigest()}


def _rows(place: Place, stage: str = "stage-1") -> dict[str, dict[str, str]]:
    with (place.path / stage / "tasks.csv").open() as file:
        return {row["key"]: row for row in csv.DictReader(file)}


@pytest.mark.long
@pytest.mark.parametrize("folders", [{}, {"folders": "digest"}], ids=["named", "digest"])
@pytest.mark.parametrize("source", [_of_points, _of_csv, _of_jsonl])
def test_parameter_of_the_stage_is_the_default_of_points_without_a_value(
    tmp_path: Path, source: Any, folders: dict[str, str]
) -> None:
    """The value of a point overrides the default, and the table leaves missing values empty."""
    map_ = {**source(tmp_path / "root"), **folders}
    stage = sweep(tmp_path / "trace", map_, WIDTH, width=1.5, metrics=METRICS)
    place = begun(tmp_path, stage)
    place.done("run")
    assert lines(tmp_path / "trace") == KEYS
    rows = _rows(place)
    assert {key: (row["width"], row["width_used"]) for key, row in rows.items()} == {
        "T=0.25": ("", "1.5"),
        "T=0.5,width=2.5": ("2.5", "2.5"),
        "T=1": ("", "1.5"),
    }


@pytest.mark.long
def test_value_of_one_point_recomputes_only_its_task(tmp_path: Path) -> None:
    """The keys and results of all other points stay the same."""
    plain = {"points": [{"T": 0.5}, {"T": 0.25}, {"T": 1}]}
    stage = sweep(tmp_path / "trace", plain, WIDTH, width=1.5, task_outputs=["e.json", "w.json"])
    place = begun(tmp_path, stage)
    place.done("run")
    (tmp_path / "trace").unlink()
    shown = amended(place, map={"points": POINTS})["impact"]["tasks"]["stage-1"]
    assert (shown["kept"], shown["computed"], shown["set_aside"]) == (2, 1, 1)
    place.done("run")
    assert lines(tmp_path / "trace") == ["T=0.5,width=2.5"]


@pytest.mark.long
def test_tables_queries_and_plots_allow_missing_values(tmp_path: Path) -> None:
    """A condition selects only tasks with a value; a plot draws a line of the other tasks."""
    map_ = {"points": [*POINTS, {"T": 2, "width": 2.5}], "order": "-width"}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_, width=1.5))
    place.done("run")
    table = place.call("-o", "csv", "metrics", "stage-1")
    assert table.out.splitlines() == [
        "key,T,width,energy",
        '"T=0.5,width=2.5",0.5,2.5,0.5',
        '"T=2,width=2.5",2,2.5,2',
        "T=0.25,0.25,,0.25",
        "T=1,1,,1",
    ]
    chosen = place.done("tasks", "stage-1", "--where", "width>2")["tasks"]
    assert [row["values"] for row in chosen] == [{"T": 0.5, "width": 2.5}, {"T": 2, "width": 2.5}]
    assert place.done("tasks", "stage-1", "--where", "width!=2.5")["chosen"] == 0
    assert "T=0.25" in place.call("metrics", "stage-1").out
    lines_of = place.done("metrics", "stage-1", "--plot", "energy")["lines"]
    assert {name: [p["x"] for p in found] for name, found in lines_of.items()} == {
        "no width": [0.25, 1],
        "width = 2.5": [0.5, 2],
    }
    for format_ in ("report", "table", "notebook", "ro-crate"):
        place.done("export", format_, str(tmp_path / f"{format_}.out"))
    (place.path / "stage-1/tasks.csv").unlink()
    assert place.done("verify", "stage-1", "--restore")["restored"] == ["stage-1/tasks.csv"]


def test_plan_check_names_values_that_some_points_lack(tmp_path: Path) -> None:
    """The advice suggests a default, and is silent if the stage has one."""
    said = "some points have no value width. Set a default"
    for default, is_said in (({}, True), ({"width": 1}, False)):
        stage = sweep(tmp_path / "trace", {"points": POINTS}, WIDTH, **default)
        given = {"workflow_id": "w-1", "purpose": "Many.", "stages": [stage]}
        advice = call("plan", "check", str(write_plan(tmp_path, given)))
        assert (said in advice.out + advice.err) == is_said, advice


@pytest.mark.long
@pytest.mark.parametrize("default", [{}, {"y": 1}], ids=["without default", "with default"])
def test_round_may_lack_a_value_only_with_a_default(
    tmp_path: Path, default: dict[str, int]
) -> None:
    """A proposed point without a required value does not start a round."""
    given = plan(tmp_path, at_most=2, within={"x": {"from": 0, "to": 100}, "y": [1, 2]})
    given["stages"][0]["parameters"] |= {"map": {"points": [{"x": 0, "y": 1}]}, **default}
    give(tmp_path, 1, "x,y\n7,\n8,2\n")
    give(tmp_path, 2, "x,y\n9,\n")
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    ended = place.json("run")
    begun_ = place.done("events", "--type", "round.begun")
    if not default:
        assert (ended.code, begun_) == (6, [])
        assert "point 1: expected values for x, y, found x" in ended.out
        return
    assert ended.code == 0
    assert [one["data"]["points"] for one in begun_] == [[{"x": 7}, {"x": 8, "y": 2}]]
    assert lines(tmp_path / "trace") == ["x=0,y=1", "x=7", "x=8,y=2"]


@pytest.mark.long
def test_point_equal_to_another_point_by_a_default_starts_no_round(tmp_path: Path) -> None:
    """A point without a value has the default, so the same computation would run twice."""
    bounds = {"x": {"from": 0, "to": 100}, "y": {"from": 1, "to": 2}}
    given = plan(tmp_path, at_most=2, within=bounds, ask="agent")
    given["stages"][0]["parameters"] |= {"map": {"points": [{"x": 0, "y": 1}]}, "y": 1}
    give(tmp_path, 1, "x\n0\n")
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    assert place.json("run").code == 6
    propose = ("round", "propose", "walk", "--points")
    because = ", because the stage run has the default values y=1 (the first 1 are those so far)"
    for points, said in (
        ('[{"x": 0}]', "points 1 and 2 have the same values (x=0,y=1 and x=0)"),
        (
            '[{"x": 7, "y": 1.0}, {"x": 7}]',
            "points 2 and 3 have the same values (x=7,y=1.0 and x=7)",
        ),
    ):
        answer = place.json(*propose, points)
        assert answer.code == 5
        assert said + because in answer.error["message"]
    assert place.done("events", "--type", "round.begun") == []
    place.done(*propose, '[{"x": 0, "y": 2}, {"x": 7}]')


@pytest.mark.long
def test_follower_reads_the_result_of_the_point_with_the_same_values(tmp_path: Path) -> None:
    """A parameter of the follower is the default of the points that lack the value."""
    command = 'cp "${WFCTL_LIKE_FOLDER:?}"/e.json . && ' + WIDTH
    follower = {
        "id": "stage-2",
        "name": "Follow",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/tasks.csv"],
        "outputs": ["stage-2/tasks.csv"],
        "parameters": {
            "command": command,
            "map": {"like": "stage-1"},
            "task_outputs": ["e.json", "w.json"],
            "metrics": METRICS,
            "width": 3,
        },
    }
    place = begun(tmp_path, sweep(tmp_path / "trace", {"points": POINTS}), follower)
    place.done("run")
    found = {k: (r["energy"], r["width_used"]) for k, r in _rows(place, "stage-2").items()}
    assert found == {
        "T=0.25": ("0.25", "3"),
        "T=0.5,width=2.5": ("0.5", "2.5"),
        "T=1": ("1", "3"),
    }
