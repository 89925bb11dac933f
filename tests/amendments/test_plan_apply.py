"""`wfctl plan apply`: the difference to an edited plan becomes one amendment."""

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
    """Write the plan with changes: ``stage_2={"n": 7}`` sets parameters of a stage."""
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
    """Return a completed workflow under the policy trust."""
    place = Place(tmp_path)
    place.done("init", edited(place), "--consent", "trust")
    place.done("run")
    return place


def statuses(place: Place) -> list[str]:
    """Return the statuses of the stages."""
    return [one["status"] for one in place.done("status")["stages"]]


@pytest.mark.long
@pytest.mark.slow
def test_edited_plan_changes_several_stages_with_one_amendment(done: Place) -> None:
    """Only changed stages and their dependents are computed again."""
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


@pytest.mark.long
@pytest.mark.slow
def test_unchanged_plan_records_nothing(done: Place) -> None:
    """`plan apply` needs no reason and reports that the plan matches."""
    version = done.version()
    assert done.done("plan", "apply", edited(done))["changed"] is False
    assert "already matches the plan" in done.call("plan", "apply", edited(done)).out
    assert done.version() == version


def test_edited_plan_can_insert_a_stage(tmp_path: Path) -> None:
    """The stage gets its position, and the next stage depends on it."""
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


def test_plan_applied_by_an_agent_waits_for_a_person(tmp_path: Path) -> None:
    """`plan apply` by an agent records only a proposal and exits with code 6."""
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
        ({"stages": PLAN["stages"][:3]}, "stages: stage-4 is missing in the plan"),
        (
            {"stages": [*PLAN["stages"][:2], PLAN["stages"][3], PLAN["stages"][2]]},
            "stages: the order",
        ),
    ],
)
def test_plan_with_a_fixed_field_changed_is_refused(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    """The refusal names the field, and no other change is recorded."""
    place = Place(tmp_path)
    place.done("init", edited(place), "--consent", "trust")
    answer = place.json("plan", "apply", edited(place, **changes), "--reason", "r")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment")
    assert any(one.startswith(field) for one in answer.error["data"]["problems"])
    assert place.done("amend", "list") == []
