"""`init` refuses an invalid plan with the reason and writes nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PLAN, call, tree, wfctl, write_plan


def init(tmp_path: Path, plan: Path) -> tuple[dict[str, Any], int]:
    """Call `init` with an invalid plan, and return the error and the exit code."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    before = tree(tmp_path)
    answer = call("--root", str(root), "-o", "json", "init", str(plan))
    assert tree(tmp_path) == before
    assert not call("--root", str(root), "init", str(plan)).out
    return answer.error, answer.code


def with_stage(**changes: Any) -> dict[str, Any]:
    """Return the plan with changed fields in its second stage. The value None removes a field."""
    plan = deepcopy(PLAN)
    plan["stages"][1].update(changes)
    plan["stages"][1] = {k: v for k, v in plan["stages"][1].items() if v is not None}
    return plan


def cyclic() -> dict[str, Any]:
    """Return a plan whose stages depend on each other."""
    plan = with_stage()
    plan["stages"][0]["depends_on"] = ["stage-2"]
    return plan


WRONG: dict[str, tuple[Any, str]] = {
    "a cycle": (
        cyclic(),
        ("the stages depend on each other in a circle (depends_on): stage-1 -> stage-2 -> stage-1"),
    ),
    "itself": (with_stage(depends_on=["stage-2"]), "circle (depends_on): stage-2 -> stage-2"),
    "an unknown dependency": (with_stage(depends_on=["stage-9"]), "no stage 'stage-9'"),
    "a duplicate id": (with_stage(id="stage-1", depends_on=[]), "stage-1 appears 2 times"),
    "a malformed id": (with_stage(id="stage-2a"), "stages[1].id"),
    "a number left out": (with_stage(id="stage-3"), "stage-2 is missing"),
    "a missing field": (with_stage(name=None), "stages[1].name: this field is missing"),
    "no stages": ({"workflow_id": "w"}, "stages: this field is missing"),
    "an empty list of stages": ({"workflow_id": "w", "stages": []}, "stages"),
    "no id": ({"stages": PLAN["stages"]}, "workflow_id: this field is missing"),
    "an id that is a path": ({**PLAN, "workflow_id": "../w"}, "workflow_id"),
    "a wrong type": (with_stage(depends_on="stage-1"), "stages[1].depends_on"),
    "a number for a name": (with_stage(name=3), "stages[1].name"),
    "a name of two lines": (with_stage(name="a\nb"), "stages[1].name"),
    "a list at the top": ([PLAN], "the plan must be an object with fields, found list"),
    "a misspelt field": (with_stage(depend_on=[]), "did you mean depends_on?"),
    "a command beside parameters": (with_stage(command="true"), "parameters.command"),
    "a check beside parameters": (with_stage(verify="true"), "parameters.verify"),
    "a parameter that no program takes": (
        with_stage(parameters={"command": "true", "sequence": "A" * 140_000}),
        "stage-2.parameters.sequence: expected at most 130,000 bytes",
    ),
    "parameters that no program takes together": (
        with_stage(parameters={"command": "true", **{f"s{n}": "A" * 100_000 for n in range(11)}}),
        "stage-2.parameters: expected at most 1,000,000 bytes",
    ),
    "a point that no program takes": (
        with_stage(
            outputs=["stage-2/tasks.csv"],
            parameters={
                "command": "true",
                "map": {"points": [{"s": "A" * 140_000}], "folders": "digest"},
            },
        ),
        "bytes, but at most 129,000 bytes are allowed",
    ),
    "a backslash in an input": (
        with_stage(inputs=["a\\b"], parameters={"command": "true"}),
        "stage-2.inputs: DPDispatcher cannot copy",
    ),
    "a drive of an output": (
        with_stage(outputs=["stage-2/a:b"], parameters={"command": "true"}),
        "stage-2.outputs: DPDispatcher cannot copy",
    ),
    "retries of one's own": (with_stage(retries=5), "3 on a local backend"),
    "resources of a stage": (with_stage(resources={}), "parameters.resources"),
    "an environment": (with_stage(env={}), "WFCTL_PARAM_"),
    "depends": (with_stage(depends=[]), "use depends_on"),
    "a time limit": (with_stage(timeout=5), "use parameters.time_limit, in seconds"),
    "what nobody knows": (with_stage(colour="red"), "a name that starts with x-"),
    "a misspelt name at the top": ({**PLAN, "purpse": "x"}, "did you mean purpose?"),
    "an output outside the root": (with_stage(outputs=["../a"]), "is outside the root"),
    "an absolute output": (with_stage(outputs=["/tmp/a"]), "is outside the root"),
    "an output out of reach": (
        with_stage(parameters={"command": "true"}, outputs=["result/a"]),
        "such as stage-2/a",
    ),
    "an unknown backend": (with_stage(backend="moon"), "no profile 'moon'"),
    "a stage under way": (with_stage(status="running"), "'running'"),
    "too large a number": (with_stage(parameters={"n": 2**70}), "64"),
    "half a character": (with_stage(parameters={"text": "\ud800"}), "surrogate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_plan_that_breaks_a_rule_is_refused_with_its_reason(tmp_path: Path, name: str) -> None:
    """The message names the invalid field and the problem."""
    plan, said = WRONG[name]
    error, code = init(tmp_path, write_plan(tmp_path, plan))
    assert code == 1
    assert error["code"] == "invalid_plan"
    assert said in error["message"]
    assert "Nothing was written" in error["message"]


def test_all_problems_of_a_plan_are_reported_together(tmp_path: Path) -> None:
    """`init` reports every problem of a plan at the same time."""
    plan = with_stage(depends_on=["stage-8", "stage-9"], backend="moon")
    error, _ = init(tmp_path, write_plan(tmp_path, plan))
    assert len(error["data"]["problems"]) == 3


UNREADABLE: dict[str, tuple[str, str, str, tuple[int, int] | None]] = {
    "JSON": ("plan.json", '{"workflow_id": "w",\n  "stages" []}', "JSON", (2, 12)),
    "JSON cut off": ("plan.json", '{"workflow_id"', "JSON", (1, 15)),
    "YAML": ("plan.yaml", "workflow_id: w\nstages: [\n  a: {\n", "YAML", (4, 1)),
    "YAML with a tab": ("plan.yml", "workflow_id: w\n\tstages: []\n", "YAML", (2, 1)),
    "TOML": ("plan.toml", 'workflow_id = "w"\nstages = [\n  nope\n]\n', "TOML", (3, 3)),
    "TOML cut off": ("plan.toml", 'workflow_id = "w', "TOML", (1, 17)),
    "an empty file": ("plan.json", "", "JSON", (1, 1)),
    "NaN": ("plan.json", '{"workflow_id": NaN}', "JSON", None),
    "a number without end": ("plan.json", '{"stages": -Infinity}', "JSON", None),
    "a key twice, JSON": ("plan.json", '{"a": 1,\n "a": 2}', "JSON", None),
    "a key twice, YAML": ("plan.yaml", "a: 1\nb: 2\na: 3\n", "YAML", (3, 1)),
    "a key twice, TOML": ("plan.toml", "a = 1\na = 2\n", "TOML", (2, 6)),
    "an invalid date": ("plan.yaml", "created: 2026-13-45\n", "YAML", None),
    "a list that holds itself": ("plan.yaml", "&a [*a]\n", "YAML", None),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_undecodable_plan_reports_line_and_column(tmp_path: Path, name: str) -> None:
    """The message and the JSON data both contain the position."""
    file, text, kind, place = UNREADABLE[name]
    (tmp_path / file).write_text(text, "utf-8")
    error, code = init(tmp_path, tmp_path / file)
    assert (code, error["code"], error["data"]["kind"]) == (1, "unreadable_plan", kind)
    if place is not None:
        assert (error["data"]["line"], error["data"]["column"]) == place
        assert f"line {place[0]}, column {place[1]}: not valid {kind}" in error["message"]


_STAGE = "id: stage-1, name: A, parameters: {x: .nan}"
NOT_FINITE = {
    "plan.json": """{"workflow_id": "w", "stages":
        [{"id": "stage-1", "name": "A", "parameters": {"x": 1e999}}]}""",
    "plan.yaml": f"{{workflow_id: w, stages: [{{{_STAGE}}}]}}",
    "plan.toml": """workflow_id = "w"
        stages = [{id = "stage-1", name = "A", parameters = {x = inf}}]""",
}


@pytest.mark.parametrize("file", NOT_FINITE)
def test_number_that_is_not_finite_is_refused(tmp_path: Path, file: str) -> None:
    """`init` refuses NaN and infinity in JSON, YAML and TOML plans."""
    (tmp_path / file).write_text(NOT_FINITE[file], "utf-8")
    error, code = init(tmp_path, tmp_path / file)
    assert (code, error["code"]) == (1, "invalid_plan")
    assert "stages[0].parameters.x" in error["message"]


def test_plan_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """The error states that the file is not valid UTF-8."""
    (tmp_path / "plan.json").write_bytes(b'{"workflow_id": "\xff"}')
    error, code = init(tmp_path, tmp_path / "plan.json")
    assert (code, error["data"]["kind"]) == (1, "UTF-8")


def test_missing_plan_is_not_found(tmp_path: Path) -> None:
    """`init` exits with code 3 and names the path if it is missing or is a folder."""
    error, code = init(tmp_path, tmp_path / "gone.json")
    assert (code, error["code"]) == (3, "not_found")
    assert "gone.json" in error["message"]
    error, code = init(tmp_path, tmp_path)
    assert (code, error["code"]) == (3, "not_found")


@pytest.mark.parametrize("bad", ['{"stages": [', ""])
def test_plan_from_standard_input_is_validated(tmp_path: Path, bad: str) -> None:
    """``init -`` reads the plan from standard input and checks it like a file."""
    answer = wfctl("-o", "json", "init", "-", cwd=tmp_path, stdin=bad)
    assert answer.code == 1
    assert answer.error["code"] in ("unreadable_plan", "invalid_plan")
    assert list(tmp_path.iterdir()) == []
    answer = wfctl("init", "-", cwd=tmp_path, stdin=json.dumps(PLAN))
    assert answer.code == 0, answer.err


def test_same_plan_in_json_yaml_and_toml_creates_the_same_workflow(tmp_path: Path) -> None:
    """`init` records the same document for plans in the three formats."""
    (tmp_path / "p.json").write_text(json.dumps(PLAN))
    (tmp_path / "p.yaml").write_text(json.dumps(PLAN))
    (tmp_path / "p.toml").write_text(
        'workflow_id = "melt-2026-03-31"\npurpose = "See it melt."\n'
        '[[stages]]\nid = "stage-1"\nname = "Build"\noutputs = ["stage-1/out.txt"]\n'
        'parameters.command = "echo hi > out.txt"\n'
        '[[stages]]\nid = "stage-2"\nname = "Run"\ndepends_on = ["stage-1"]\n'
    )
    made = []
    for suffix in ("json", "yaml", "toml"):
        root = tmp_path / suffix
        root.mkdir()
        assert call("--root", str(root), "init", str(tmp_path / f"p.{suffix}")).code == 0
        state = json.loads((root / "workflow-state.json").read_text("utf-8"))
        made.append({k: v for k, v in state.items() if k not in ("created", "updated")})
    assert made[0] == made[1] == made[2]
