"""A refusal with many reasons lists the first twenty and the number of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import Place as Amended
from tests.cli.support import Answer, Place, call, write_plan
from tests.sweeps.looped import looped

MANY = 30_000
#: Maximum length of an answer in characters, which fits twenty lines twice.
LENGTH = 10_000


def refusals(place: Place) -> str:
    """Return all rows of the database table `refusals` as JSON."""
    with Amended(place.path).database() as database:
        rows = database.execute("SELECT * FROM refusals").fetchall()
    return json.dumps(rows)


def names_the_first(answer: Answer, left_out: str) -> None:
    """Check that an error is short and states the number of reasons that it leaves out."""
    assert answer.code != 0
    assert f"… and {left_out} more" in answer.out
    assert len(answer.out) < LENGTH


@pytest.mark.slow
def test_error_for_many_invalid_points_lists_twenty(tmp_path: Path) -> None:
    """The error, its data and the stored refusal list twenty invalid points each."""
    place = looped(tmp_path, "x\n0\n", ask="agent", each=None)
    assert place.call("run").code == 6
    given = tmp_path / "points.json"
    given.write_text(json.dumps([{"x": 1000 + n} for n in range(MANY)]))
    refused = place.json("round", "propose", "walk", str(given))
    assert refused.error["code"] == "outside_envelope"
    problems = refused.error["data"]["problems"]
    names_the_first(refused, "29,980")
    assert len(problems) == 21
    assert place.call("round", "propose", "walk", str(given)).err.count("is not within") <= 20
    assert len(refusals(place)) < 2 * LENGTH
    assert len(place.call("audit", "refused").out) < 2 * LENGTH


def test_error_for_a_plan_with_many_faults_lists_twenty(tmp_path: Path) -> None:
    """The limit also applies if an error takes its reasons from another error."""
    stages = [{"id": f"stage-{n}", "name": "S", "purpse": "x"} for n in range(1, 51)]
    plan: dict[str, Any] = {"workflow_id": "w", "stages": stages}
    source = str(write_plan(tmp_path, plan))
    (tmp_path / "root").mkdir()
    names_the_first(call("--root", str(tmp_path / "root"), "-o", "json", "init", source), "30")


def test_proposal_with_many_values_outside_a_mandate_lists_twenty(tmp_path: Path) -> None:
    """The answer lists twenty values outside the mandate, and the number of the others."""
    stage = {
        "id": "stage-1",
        "name": "Solve",
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {"command": "true", "map": {"grid": {"x": [1, 2]}}},
    }
    mandate = {
        "stages": ["stage-1"],
        "amendments": 3,
        "values": {"stage-1.parameters.map.grid.x": [1, 2]},
    }
    plan = {"workflow_id": "w", "stages": [stage], "mandates": {"sampling": mandate}}
    root = tmp_path / "root"
    root.mkdir()
    source = str(write_plan(tmp_path, plan))
    assert call("--root", str(root), "init", source, "--consent", "trust").code == 0
    values = json.dumps(list(range(10, 60)))
    words = ("--stage", "stage-1", "--set", f"parameters.map.grid.x={values}", "--reason", "more")
    said = Place(root).done("amend", "propose", *words, "--dry-run")
    assert said["not_within"]["sampling"][-1] == "… and 30 more"
