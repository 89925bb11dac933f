"""A plan before a workflow is made of it: an example to start from, a check, its schema."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import PLAN, Place, call, tree, write_plan


def test_the_example_is_a_plan_that_is_taken_as_it_is(tmp_path: Path) -> None:
    """It is written once, never over a file, and `init` makes a workflow of it."""
    plan = tmp_path / "plan.toml"
    assert call("init", "--example", str(plan)).code == 0
    assert call("init", "--example", str(plan)).code == 4
    assert call("plan", "check", str(plan)).code == 0
    root = tmp_path / "root"
    root.mkdir()
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0


def test_a_check_tells_every_problem_and_writes_nothing(tmp_path: Path) -> None:
    """The same words as `init`, with the same exit code."""
    wrong = {**PLAN, "purpse": "x"}
    plan = write_plan(tmp_path, wrong)
    before = tree(tmp_path)
    answer = call("-o", "json", "plan", "check", str(plan))
    assert (answer.code, answer.error["code"]) == (1, "invalid_plan")
    assert answer.error["data"]["problems"] == ["purpse: unknown field; did you mean purpose?"]
    assert tree(tmp_path) == before


def test_the_schema_of_a_plan_describes_every_field() -> None:
    """Editors take it."""
    schema = json.loads(call("schema", "plan").out)
    stage = schema["properties"]["stages"]["items"]
    for fields in (schema["properties"], stage["properties"]):
        assert all(field["description"] for field in fields.values())
    assert stage["additionalProperties"] is False


def test_a_slip_in_the_name_of_a_parameter_is_asked_about(tmp_path: Path) -> None:
    """A command may have parameters of any name, so it is no error; a name far from all is none."""
    place = Place(tmp_path)
    given = {"comand": "true", "expected_second": 3, "tolerance": 0.1, "T": 2}
    plan = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "A", "parameters": given}]}
    path = write_plan(tmp_path, plan)
    doubts = place.done("plan", "check", str(path))["doubts"]
    assert [doubt.rpartition(" mean ")[2] for doubt in doubts] == ["command?", "expected_seconds?"]
    answer = place.call("init", str(path), "--consent", "trust")
    assert answer.code == 0
    assert "parameters.comand is read by its command alone" in answer.err
    assert place.done("show", "stage-1")["parameters"] == given
