"""Plans: what becomes a workflow, and what is refused with every problem named."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lifecycle.errors import InvalidPlan
from lifecycle.plan.document import create
from tests.lifecycle import support as s


def broken(**changes: Any) -> list[str]:
    """Return the problems of the plan with changes."""
    with pytest.raises(InvalidPlan) as refusal:
        create({**deepcopy(s.PLAN), **changes}, created=s.AT)
    problems: list[str] = refusal.value.data["problems"]
    return problems


def stages(**changes: Any) -> list[dict[str, Any]]:
    """Return the plan's stages with changes to stage-2."""
    entries = deepcopy(s.PLAN["stages"])
    entries[1].update(changes)
    found: list[dict[str, Any]] = entries
    return found


def test_a_small_plan_is_filled_up_in_the_order_of_the_file() -> None:
    """Given ids and names, the document has every field, in the protocol's order."""
    document = create(s.PLAN, created=s.AT).document
    assert list(document) == [
        "workflow_id",
        "version",
        "created",
        "updated",
        "experiment_design",
        "workflow_plan",
        "amendments",
        "session_config",
        "default_backend",
        "backend_profiles",
        "stages",
    ]
    stage: Any = document["stages"]
    assert list(stage[0]) == [
        "id",
        "name",
        "status",
        "depends_on",
        "backend",
        "inputs",
        "outputs",
        "parameters",
        "success_criteria",
        "started_at",
        "completed_at",
        "retry_count",
        "last_error",
        "running_process",
    ]


def test_the_order_of_parameters_survives() -> None:
    """Given parameters in a person's order, the fold shows them in it."""
    plan = {**s.PLAN, "stages": stages(parameters={"z": 1, "a": {"y": 2, "b": 3}})}
    parameters = s.given(plan=plan).stage("stage-2").parameters
    assert list(parameters) == ["z", "a"]
    assert list(parameters["a"]) == ["y", "b"]


def test_foreign_fields_are_kept() -> None:
    """Given fields for people, and what files of the protocol carry, they are in the state."""
    plan = {**s.PLAN, "x-laboratory": "B12", "stages": stages(verification={"atoms": 50})}
    state = s.given(plan=plan)
    assert state.extra == {"x-laboratory": "B12"}
    assert state.stage("stage-2").extra == {"verification": {"atoms": 50}}


def test_a_cycle_is_shown_as_one() -> None:
    """Given stage-2 -> stage-3 -> stage-2, the problem spells the circle."""
    entries = stages(depends_on=["stage-3"])
    entries[2]["depends_on"] = ["stage-2"]
    assert broken(stages=entries) == [
        "depends_on goes in a circle: stage-2 -> stage-3 -> stage-2",
    ]


def test_a_stage_that_depends_on_itself_is_a_cycle() -> None:
    """Given stage-2 -> stage-2, it is a circle."""
    assert broken(stages=stages(depends_on=["stage-2"])) == [
        "depends_on goes in a circle: stage-2 -> stage-2"
    ]


def test_an_unknown_dependency_is_named() -> None:
    """Given a dependency that no stage has, the problem says where."""
    assert broken(stages=stages(depends_on=["stage-7"])) == [
        "stage-2.depends_on: no stage 'stage-7'"
    ]


def test_a_duplicate_id_is_named() -> None:
    """Given stage-1 twice, the problem counts it."""
    assert "stages: stage-1 appears 2 times" in broken(stages=stages(id="stage-1"))


@pytest.mark.parametrize(
    "id_",
    ["stage-2a", "stage-0", "Stage-2", "stage-02", "2", "stage-", "a.b", "docs", "att-0001", "a/b"],
)
def test_a_malformed_id_is_refused(id_: str) -> None:
    """Given an id that is neither stage-N nor a name, the problem shows its place and itself."""
    problems = broken(stages=stages(id=id_))
    (problem,) = [one for one in problems if one.startswith("stages[1].id: ")]
    assert repr(id_) in problem


def test_a_gap_in_the_numbers_is_refused() -> None:
    """Given stage-1, stage-9, stage-3, the missing number is named."""
    problems = broken(stages=stages(id="stage-9"))
    assert "stages: numbers run from 1 without a gap; stage-2 is missing" in problems


def test_a_missing_field_is_named() -> None:
    """Given a stage without a name and a plan without an id, both are said."""
    entries = stages()
    del entries[1]["name"]
    plan = {"stages": entries}
    with pytest.raises(InvalidPlan) as refusal:
        create(plan, created=s.AT)
    assert refusal.value.data["problems"] == [
        "workflow_id: this field is missing",
        "stages[1].name: this field is missing",
    ]


def test_a_misspelt_field_is_not_taken_for_a_foreign_one() -> None:
    """Given depend_on, the problem asks whether depends_on was meant."""
    assert broken(stages=stages(depend_on=["stage-1"])) == [
        "stages[1].depend_on: unknown field; did you mean depends_on?"
    ]


def test_an_unknown_backend_is_named_with_those_there_are() -> None:
    """Given a backend without a profile, the profiles are listed."""
    assert broken(stages=stages(backend="hpc")) == [
        "stage-2.backend: no profile 'hpc' in backend_profiles (there: local)"
    ]


def test_a_workflow_under_way_is_not_a_plan() -> None:
    """Given a completed stage, the way to take it over is named."""
    (problem,) = broken(stages=stages(status="completed"))
    assert "wfctl import" in problem


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"session_budget": "6"}, "session_config.session_budget: expected a number"),
        ({"session_budget": True}, "session_config.session_budget: expected a number"),
        ({"stage_weights": [1]}, "session_config.stage_weights: expected an object"),
        ({"stage_weights": {"sync": -1}}, "session_config.stage_weights.sync: expected a number"),
        ({"autonomous": "yes"}, "session_config.autonomous: expected true or false"),
    ],
)
def test_what_would_steer_no_session_is_refused(config: dict[str, Any], expected: str) -> None:
    """Given a budget, a weight or a driver that is not valid, then it is no usual one unasked."""
    (problem,) = broken(session_config=config)
    assert problem.startswith(expected)


@pytest.mark.parametrize("plan", [[], "plan", None, 3])
def test_a_plan_is_an_object(plan: Any) -> None:
    """Given another kind of value, that is the problem."""
    with pytest.raises(InvalidPlan, match="expected an object"):
        create(plan, created=s.AT)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_refused(value: float) -> None:
    """Given NaN among the parameters, the plan is refused."""
    assert broken(stages=stages(parameters={"tolerance": value}))


@pytest.mark.parametrize(
    "changes",
    [
        {"backend_profiles": {"far": {"remote_profile": {"password": "x"}}}},
        {"backend_profiles": {"far": {"config": {"remote_profile": {"password": "x"}}}}},
        {
            "stages": stages(
                parameters={"resource_overrides": {"remote_profile": {"password": "x"}}}
            )
        },
    ],
    ids=["profile", "config", "overrides"],
)
def test_what_lets_one_into_a_machine_is_refused(changes: dict[str, Any]) -> None:
    """Wherever it stands: a plan is recorded and shown for good."""
    [problem] = [text for text in broken(**changes) if "remote_profile" in text]
    assert "config_path" in problem
