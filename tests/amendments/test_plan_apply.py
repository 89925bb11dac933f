"""An edited plan against the workflow: one difference, one amendment, one decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan

PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "stages": [
        {
            "id": f"stage-{n}",
            "name": f"Part {n}",
            "depends_on": [f"stage-{n - 1}"] if n in (2, 3) else [],
            "outputs": [f"stage-{n}/out"],
            "parameters": {
                "command": "echo $WFCTL_PARAM_n > out",
                "verify": "true",
                "n": n,
                "expected_seconds": 1,
            },
        }
        for n in (1, 2, 3, 4)
    ],
}


def edited(place: Place, **changes: Any) -> str:
    """Write the plan with other values: ``stage_2={"n": 7}`` of parameters, else of the plan."""
    plan = json.loads(json.dumps(PLAN))
    for name, value in changes.items():
        number = name.removeprefix("stage_")
        if number == name:
            plan[name] = value
        else:
            plan["stages"][int(number) - 1]["parameters"] |= value
    return str(write_plan(place.path, plan))


@pytest.fixture
def done(tmp_path: Path) -> Place:
    """Return a workflow that is completed, under trust."""
    place = Place(tmp_path)
    place.done("init", edited(place), "--consent", "trust")
    place.done("run")
    return place


def statuses(place: Place) -> list[str]:
    """Return how the stages stand."""
    return [one["status"] for one in place.done("status")["stages"]]


@pytest.mark.slow
def test_a_plan_changes_several_stages_by_one_decision(done: Place) -> None:
    """What rests on a change is computed again, and nothing else."""
    file = edited(done, stage_2={"n": 7}, stage_3={"more": "x"}, stage_4={"verify": "test 1"})
    dry = done.done("plan", "apply", file, "--reason", "finer", "--dry-run")
    impact = dry["impact"]
    assert list(impact["computed_again"]) == ["stage-2", "stage-3"]
    assert impact["judged_again"] == ["stage-4"]
    assert impact["results_kept"] == ["stage-1"]
    assert done.done("amend", "list") == []
    done.done("plan", "apply", file, "--reason", "finer", "--command-id", "k")
    (amendment,) = done.done("amend", "list")
    assert (amendment["status"], amendment["type"]) == ("approved", "plan_change")
    assert done.done("plan", "apply", file, "--reason", "finer", "--command-id", "k")["repeated"]
    assert statuses(done)[0] == "completed"
    done.done("run")
    assert statuses(done) == ["completed"] * 4
    assert (done.path / "stage-2/out").read_text() == "7\n"
    assert [len(done.done("show", f"stage-{n}")["attempts"]) for n in (1, 2, 3, 4)] == [1, 2, 2, 1]
    assert done.call("replay", "--check").code == 0


@pytest.mark.slow
def test_a_plan_that_changes_nothing_says_so(done: Place) -> None:
    """Nothing is recorded, not even a reason is asked for."""
    version = done.version()
    assert done.done("plan", "apply", edited(done))["changed"] is False
    assert "nothing to change" in done.call("plan", "apply", edited(done)).out
    assert done.version() == version


def test_a_plan_adds_a_stage_between_others(tmp_path: Path) -> None:
    """It takes its place, and the stage behind it waits for it."""
    place = Place(tmp_path)
    place.done("init", edited(place), "--consent", "trust")
    stages = json.loads(json.dumps(PLAN["stages"]))
    stages[2]["depends_on"] = ["stage-2", "check"]
    stages.insert(2, {"id": "check", "name": "Check", "depends_on": ["stage-2"]})
    place.done("plan", "apply", edited(place, stages=stages), "--reason", "a look")
    found = place.done("status")["stages"]
    assert [one["id"] for one in found] == ["stage-1", "stage-2", "check", "stage-3", "stage-4"]
    assert place.done("show", "stage-3")["depends_on"] == ["stage-2", "check"]
    assert place.done("plan", "apply", edited(place, stages=stages))["changed"] is False


def test_a_plan_of_an_agent_waits_for_a_person(tmp_path: Path) -> None:
    """It is proposed, exit 6, and the answer names the command that a person runs."""
    place = Place(tmp_path)
    place.done("init", edited(place))
    file = edited(place, stage_1={"n": 7}, stage_2={"n": 7})
    answer = place.json("plan", "apply", file, "--reason", "r")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    _, amendment = place.done("amend", "list")
    assert (amendment["type"], amendment["status"]) == ("plan_change", "proposed")
    assert place.done("show", "stage-1")["parameters"]["n"] == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"workflow_id": "v"}, "workflow_id: "),
        ({"purpose": "another"}, "purpose: "),
        ({"tags": ["x"]}, "tags: "),
        ({"stages": PLAN["stages"][:3]}, "stages: stage-4 is not in the plan"),
        ({"stages": [*PLAN["stages"][:2], PLAN["stages"][3], PLAN["stages"][2]]}, "stages: their"),
    ],
)
def test_a_plan_is_refused_by_the_field_that_stays(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    """Nothing of the rest is taken either."""
    place = Place(tmp_path)
    place.done("init", edited(place), "--consent", "trust")
    answer = place.json("plan", "apply", edited(place, **changes), "--reason", "r")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment")
    assert any(one.startswith(field) for one in answer.error["data"]["problems"])
    assert place.done("amend", "list") == []
