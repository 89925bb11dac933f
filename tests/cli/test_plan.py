"""A plan before a workflow is made of it: an example to start from, a check, its schema."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import PLAN, call, tree, write_plan


def test_the_example_is_a_plan_that_is_taken_as_it_is(tmp_path: Path) -> None:
    """It is written once, never over a file, and `init` makes a workflow of it."""
    plan = tmp_path / "plan.toml"
    assert call("init", "--example", str(plan)).code == 0
    assert call("init", "--example", str(plan)).code == 4
    assert call("plan", "check", str(plan)).code == 0
    root = tmp_path / "root"
    root.mkdir()
    assert call("--root", str(root), "init", str(plan)).code == 0


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
