"""The export of the current plan as a TOML file for `wfctl init`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.cli.support import HERE, Place, call, write_plan
from tests.exports.support import handed_over, text_of

#: Values that need quotes or escapes, or an exact type.
HARD = {
    "text": "a 'b' \"c\" \\ ü",
    "control": "\x7f\r\n\u2028'''",
    "lines": "\nfor n in 1 2; do\n\techo '$n'\ndone\n",
    "quote at the end": "a\n'b'",
    "number": 1e-05,
    "large": 1e22,
    "whole": 1.0,
    "is": True,
    "none": {},
    "empty": "",
    "nested": {"b": [{"x": 1, "a": []}], "a key": 2},
}
STAGE = {
    "id": "stage-1",
    "name": "One",
    "outputs": {"table": "stage-1/tasks.csv"},
    "description": "",
    "parameters": {
        "command": "echo $WFCTL_PARAM_T > out",
        "use": ["T"],
        "map": {"points": [{"x": 1, "w": 2.0}, {"x": 3}], "order": "-x"},
        **HARD,
    },
}
PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "purpose": 'Say "hi".',
    "tags": ["a", "b"],
    "x-note": HARD,
    "results": ["stage-2/out"],
    "session_config": {"session_budget": 9, "stage_weights": {"sync": 2}},
    "parameters": {"T": 0.25, "steps": 10},
    "backend_profiles": {"here": {"type": "local", "config": {"batch_type": "Shell"}}},
    "default_backend": "here",
    "mandates": {"all": {"stages": ["stage-2"], "amendments": 1, "reruns": 1}},
    "stages": [
        STAGE,
        {
            "id": "stage-2",
            "name": "Two",
            "depends_on": ["stage-1"],
            "inputs": ["stage-1/tasks.csv"],
            "outputs": ["stage-2/out"],
            "success_criteria": "It is there.",
            "parameters": {"command": "date > out", "n": 1, "time_limit": 60},
        },
    ],
}


def _made(folder: Path, plan: str) -> Place:
    place = Place(folder)
    folder.mkdir(exist_ok=True)
    place.done("init", plan, "--consent", "trust")
    return place


def _definition(place: Place) -> dict[str, Any]:
    """Return the state document without times, amendments and the version of the plan."""
    document: dict[str, Any] = json.loads((place.path / "workflow-state.json").read_text())
    for name in ("created", "updated", "version", "amendments"):
        del document[name]
    return document


def _copied(place: Place, folder: Path) -> Place:
    """Create a workflow from the exported plan of another workflow."""
    file = folder / "exported.toml"
    file.write_text(text_of(place, "plan"), "utf-8")
    return _made(folder / "copy", str(file))


def test_workflow_from_an_exported_plan_has_an_equal_definition(tmp_path: Path) -> None:
    """The order of keys, and the types and texts of values, stay the same."""
    place = _made(tmp_path / "root", str(write_plan(tmp_path, PLAN)))
    copy = _copied(place, tmp_path)
    assert json.dumps(_definition(copy)) == json.dumps(_definition(place))
    assert place.done("plan", "apply", str(tmp_path / "exported.toml"))["changed"] is False
    assert text_of(copy, "plan") == text_of(place, "plan")


def test_exported_plan_contains_approved_amendments(tmp_path: Path) -> None:
    """It does not contain a proposal that nobody has approved, or values of plan parameters."""
    place = _made(tmp_path / "root", str(write_plan(tmp_path, PLAN)))
    for approved, words in (
        (True, ["--set", "parameters.T=0.5"]),
        (True, ["--stage", "stage-2", "--set", "parameters.n=2"]),
        (True, ["--type", "stage_skip", "--stage", "stage-2"]),
        (False, ["--set", "parameters.steps=11"]),
    ):
        made = place.done("amend", "propose", "--reason", "More.", *words)
        if approved:
            place.done("amend", "approve", made["amendment"]["id"])
    text = text_of(place, "plan")
    plan = tomllib.loads(text)
    assert plan["parameters"] == {"T": 0.5, "steps": 10}
    assert "T" not in plan["stages"][0]["parameters"]
    assert plan["stages"][1]["parameters"]["n"] == 2
    assert '# This stage was skipped.\n[[stages]]\nid = "stage-2"' in text
    before = tomllib.loads(text_of(place, "plan", "--at", "1"))
    assert before["parameters"]["T"] == 0.25


@pytest.mark.parametrize("name", ["ising-tc", "lj-diffusion", "melt-viscosity", "polymer-bo"])
def test_plan_of_an_example_survives_the_export(tmp_path: Path, name: str) -> None:
    """The exported plan applies to the workflow without a change."""
    place = Place(tmp_path)
    plan = HERE / "examples" / name / "plan.toml"
    place.done("init", str(plan), "--consent", "trust")
    file = tmp_path / "exported.toml"
    file.write_text(text_of(place, "plan"), "utf-8")
    assert place.done("plan", "apply", str(file))["changed"] is False
    copy = Place(tmp_path / "copy")
    copy.path.mkdir()
    copy.done("init", str(file), "--consent", "trust")
    assert _definition(copy) == _definition(place)


def test_null_in_a_list_cannot_be_exported(tmp_path: Path) -> None:
    """The archive then contains no plan file."""
    plan = {**PLAN, "x-note": [None]}
    place = _made(tmp_path / "root", str(write_plan(tmp_path, plan)))
    answer = place.call("export", "plan", str(tmp_path / "plan.toml"))
    assert (answer.code, "null in a list" in answer.err) == (2, True)
    with ZipFile(handed_over(place, tmp_path)) as archive:
        assert "plan.toml" not in archive.namelist()


def test_archive_contains_the_plan(tmp_path: Path) -> None:
    """A reader of the archive can create a new workflow from the file."""
    place = _made(tmp_path / "root", str(write_plan(tmp_path, PLAN)))
    file = handed_over(place, tmp_path)
    with ZipFile(file) as archive:
        assert archive.read("plan.toml").decode() == text_of(place, "plan")
    assert call("import", str(file), "--into", str(tmp_path / "in")).code == 0
