"""Commands that compare the rounds of a loop and explain the origin of each point."""

from __future__ import annotations

import csv
import io
import json
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.support import Place, write_plan
from tests.sweeps.looped import amended, give, looped, plan
from tests.sweeps.support import begun, sweep
from tests.sweeps.test_places import like

pytestmark = pytest.mark.slow


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.mark.long
def test_compare_shows_rounds_of_a_loop(tmp_path: Path) -> None:
    """`compare` shows the numbers, points, proposer and cost of each round."""
    place = looped(tmp_path, "x\n1\n2\n", "x\n3\n", at_most=2)
    place.done("run")
    one, two = "walk@1", "walk@2"
    found = {row["name"]: row for row in place.done("compare", one, two, "--all")["rows"]}
    assert found["next.best"]["difference"][two]["value"] == 1
    assert found["points"]["values"] == {one: [{"x": 0}, {"x": 50}], two: [{"x": 1}, {"x": 2}]}
    assert found["points added"]["values"] == {one: 2, two: 2}
    assert found["proposer"]["values"] == {one: "the plan", two: "stage:next"}
    assert min(found["core hours"]["values"].values()) > 0
    assert len(found["next/next.csv"]["values"][two]) == 64
    rows = csv.DictReader(io.StringIO(place.call("-o", "csv", "compare", one, two).out))
    assert {row["name"]: row[two] for row in rows}["next.best"] == "2.0"
    runs = place.done("compare", "walk", "--runs", "--sort", "-next.best")
    assert [(run["side"], run["next.best"]) for run in runs] == [(two, 2), (one, 1)]
    past = place.json("compare", one, "walk@3")
    assert (past.code, past.error["code"]) == (3, "not_found")
    other = place.json("compare", one, "talk@1")
    assert (other.code, other.error["code"]) == (3, "unknown_loop")


@pytest.mark.long
def test_why_names_proposer_data_and_approval_of_a_point(tmp_path: Path) -> None:
    """For a point from a stage, `why` names the file, its digest and the stage's inputs."""
    place = looped(tmp_path, "x\n150\n", "x\n151\n", at_most=2)
    assert place.json("run").code == 6
    amended(place, "--set", "rounds.walk.within.x.to=200")
    table = (place.path / "run/tasks.csv").read_bytes()
    place.done("run")
    found = place.done("why", "run", "--task", "x=150")
    proposed, envelope = found["proposed"], found["envelope"]
    (begun,) = place.done("events", "--type", "round.begun")
    assert (found["loop"], found["round"], found["state"]) == ("walk", 2, "done")
    assert (proposed["by"], proposed["version"]) == ("stage:next", begun["version"])
    assert (proposed["source"], proposed["sha256"]) == ("next/next.csv", _digest(b"x\n150\n"))
    assert (proposed["attempt"], proposed["read"]) == (
        "next/att-0001",
        {"run/tasks.csv": _digest(table)},
    )
    assert envelope["within"]["x"]["to"] == 200
    assert (envelope["agreed"]["amendment"], envelope["agreed"]["policy"]) == ("amend-1", "trust")
    assert envelope["agreed"]["by"]
    first = place.done("why", "run", "--task", "x=50")
    assert (first["round"], first["proposed"], first["map"]) == (1, None, "run")
    assert first["agreed"]["version"] == 1
    assert "x 0 to 200 in steps of 1" in place.call("why", "run", "--task", "x=150").out
    unknown = place.json("why", "run", "--task", "x=7")
    assert (unknown.code, unknown.error["code"]) == (3, "not_found")
    earlier = place.json("why", "run", "--task", "x=150", "--at", str(begun["version"] - 1))
    assert earlier.code == 3
    assert place.json("why", "--task", "x=50").code == 2


@pytest.mark.long
def test_why_names_agent_reason_and_table_of_a_point(tmp_path: Path) -> None:
    """For a point from an agent, `why` gives its name, its reason and the table it read."""
    place = looped(tmp_path, "x\n0\n", ask="agent", at_most=2)
    give(tmp_path, 2, "x\n0\n")
    assert place.json("run").code == 6
    table = _digest((place.path / "run/tasks.csv").read_bytes())
    place.done(
        *("--actor", "agent:bo", "round", "propose", "walk", "--points", '[{"x": 7}]'),
        *("--reason", "the largest step"),
    )
    place.done("run")
    found = place.done("why", "run", "--task", "x=7")["proposed"]
    assert (found["by"], found["actor"]) == ("agent:bo", "agent:bo")
    assert (found["reason"], found["read"]) == ("the largest step", {"run/tasks.csv": table})
    text = place.call("why", "run", "--task", "x=7").out
    assert "reason    the largest step" in text


def test_why_for_a_follower_names_the_map_of_the_leading_stage(tmp_path: Path) -> None:
    """`why` names the amendment that added the point to the leading stage, not the plan."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"points": [{"T": 1}]}), like())
    points = 'parameters.map.points=[{"T": 1}, {"T": 7}]'
    place.done("amend", "propose", "--stage", "stage-1", "--set", points, "--reason", "More.")
    place.done("--actor", "user:bob", "amend", "approve", "amend-1")
    for stage in ("stage-1", "stage-2"):
        found = place.done("why", stage, "--task", "T=7")
        assert (found["map"], found["agreed"]["amendment"]) == ("stage-1", "amend-1")
        assert "bob" in found["agreed"]["by"]


def test_why_names_the_amendment_that_added_a_point(tmp_path: Path) -> None:
    """Later amendments of the points or checks do not change the answer of `why`."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"points": [{"T": 1}]}), like())
    maps = ([1, 7], [1, 7, 9], [1, 9], [1, 9, 7])
    for points in maps:
        listed = json.dumps([{"T": value} for value in points])
        amended(place, "--stage", "stage-1", "--set", f"parameters.map.points={listed}")
    amended(place, "--stage", "stage-1", "--set", "parameters.task_retries=1")
    for stage in ("stage-1", "stage-2"):
        found = {one: place.done("why", stage, "--task", f"T={one}")["agreed"] for one in (1, 7, 9)}
        assert found[1]["version"] == 1
        assert [found[one]["amendment"] for one in (1, 7, 9)] == [None, "amend-4", "amend-2"]
    before = place.done("events", "--type", "amendment.approved")[1]["version"]
    earlier = place.done("why", "stage-2", "--task", "T=7", "--at", str(before))
    assert earlier["agreed"]["amendment"] == "amend-1"
    assert (
        "stage-1.parameters.map lists it since v1;"
        in place.call("why", "stage-2", "--task", "T=1").out
    )


def test_why_names_the_amendment_that_added_a_point_of_a_file(tmp_path: Path) -> None:
    """wfctl reads the points of the earlier file from the copy in an attempt's folder."""
    first, second = b"T\n1\n", b"T\n1\n7\n"
    map_ = {"file": "points.csv", "sha256": _digest(first)}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_))
    (place.path / "points.csv").write_bytes(first)
    place.done("run")
    (place.path / "points.csv").write_bytes(second)
    amended(place, "--stage", "stage-1", "--set", f"parameters.map.sha256={_digest(second)}")
    place.done("run")
    found = [place.done("why", "stage-1", "--task", f"T={one}")["agreed"] for one in (1, 7)]
    assert [one["amendment"] for one in found] == [None, "amend-1"]
    assert found[0]["version"] == 1


@pytest.mark.long
def test_logs_of_an_earlier_round_are_found(tmp_path: Path) -> None:
    """`logs` finds the files of an earlier round, which were moved to the round's folder."""
    given = plan(tmp_path, at_most=2)
    given["stages"][1]["parameters"]["command"] += "; echo says $WFCTL_ROUND"
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    give(tmp_path, 1, "x\n5\n")
    give(tmp_path, 2, "x\n6\n")
    place.done("run")
    for attempt, text in (("att-0001", "says 1\n"), ("att-0002", "says 2\n")):
        found = place.done("logs", "next", "--attempt", attempt)["files"]
        assert [one["text"] for one in found] == [text]


@pytest.mark.long
def test_points_file_edited_after_its_job_is_reported(tmp_path: Path) -> None:
    """The report says that the points file was rewritten after the proposer's job ended."""
    given = plan(tmp_path, at_most=2)
    given["stages"][1]["parameters"].pop("verify")
    given["stages"][1]["success_criteria"] = "Somebody read it."
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    give(tmp_path, 1, "x\n5\n")
    give(tmp_path, 2, "x\n6\n")
    place.call("run")
    (place.path / "next/next.csv").write_text("x\n8\n")
    for number in (1, 2):
        place.done("stage", "complete", "next", "--evidence", f"Read {number}.")
        place.call("run")
    assert place.done("why", "run", "--task", "x=8")["proposed"]["by"] == "stage:next"
    text = (
        "next/next.csv differs from the output of att-0001: the file was rewritten after the "
        "job ended"
    )
    assert text in place.call("report").out
