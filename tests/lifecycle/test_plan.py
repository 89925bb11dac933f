"""Plans become workflows, or they are refused with a list of all problems."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from lifecycle.errors import InvalidPlan
from lifecycle.plan.document import build_creation_payload
from tests.lifecycle import support as s


def broken(**changes: Any) -> list[str]:
    """Return the problems that wfctl reports for the test plan with the given changes."""
    with pytest.raises(InvalidPlan) as refusal:
        build_creation_payload({**deepcopy(s.PLAN), **changes}, created=s.AT)
    problems: list[str] = refusal.value.data["problems"]
    return problems


def stages(**changes: Any) -> list[dict[str, Any]]:
    """Return the stages of the plan, with changes of stage-2."""
    entries = deepcopy(s.PLAN["stages"])
    entries[1].update(changes)
    found: list[dict[str, Any]] = entries
    return found


def test_small_plan_is_completed_with_all_fields() -> None:
    """wfctl adds all missing fields of the protocol to the workflow, in their fixed order."""
    document = build_creation_payload(s.PLAN, created=s.AT).document
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


def test_order_of_parameters_is_kept() -> None:
    """The workflow has its parameters and their nested keys in the order of the plan."""
    plan = {**s.PLAN, "stages": stages(parameters={"z": 1, "a": {"y": 2, "b": 3}})}
    parameters = s.given(plan=plan).stage("stage-2").parameters
    assert list(parameters) == ["z", "a"]
    assert list(parameters["a"]) == ["y", "b"]


def test_unknown_fields_are_kept() -> None:
    """wfctl keeps fields of the plan and of its stages that the protocol does not define."""
    plan = {**s.PLAN, "x-laboratory": "B12", "stages": stages(verification={"atoms": 50})}
    state = s.given(plan=plan)
    assert state.extra == {"x-laboratory": "B12"}
    assert state.stage("stage-2").extra == {"verification": {"atoms": 50}}


def test_cycle_is_shown_with_its_stages() -> None:
    """wfctl refuses the plan and prints the cycle: stage-2 -> stage-3 -> stage-2."""
    entries = stages(depends_on=["stage-3"])
    entries[2]["depends_on"] = ["stage-2"]
    assert broken(stages=entries) == [
        "the stages depend on each other in a circle (depends_on): stage-2 -> stage-3 -> stage-2",
    ]


def test_stage_that_depends_on_itself_is_a_cycle() -> None:
    """wfctl refuses the plan and prints the cycle: stage-2 -> stage-2."""
    assert broken(stages=stages(depends_on=["stage-2"])) == [
        "the stages depend on each other in a circle (depends_on): stage-2 -> stage-2"
    ]


def test_unknown_dependency_is_named() -> None:
    """wfctl refuses a dependency on a stage that does not exist, and names the field."""
    assert broken(stages=stages(depends_on=["stage-7"])) == [
        "stage-2.depends_on: no stage 'stage-7'"
    ]


def test_duplicate_id_is_named() -> None:
    """wfctl refuses a plan in which two stages have the same id, and prints their number."""
    assert "stages: stage-1 appears 2 times" in broken(stages=stages(id="stage-1"))


@pytest.mark.parametrize(
    "id_",
    ["stage-2a", "stage-0", "Stage-2", "stage-02", "2", "stage-", "a.b", "docs", "att-0001", "a/b"],
)
def test_malformed_id_is_refused(id_: str) -> None:
    """The message has the invalid id of the stage and its position in the plan."""
    problems = broken(stages=stages(id=id_))
    (problem,) = [one for one in problems if one.startswith("stages[1].id: ")]
    assert repr(id_) in problem


def test_gap_in_the_stage_numbers_is_refused() -> None:
    """wfctl refuses a plan with stage-1, stage-3 and stage-9, and names the missing stage-2."""
    problems = broken(stages=stages(id="stage-9"))
    assert (
        "stages: the numbers of stages must start at 1 and have no gap; stage-2 is missing"
        in problems
    )


def test_missing_fields_are_named() -> None:
    """wfctl reports a missing workflow id and a missing stage name together."""
    entries = stages()
    del entries[1]["name"]
    plan = {"stages": entries}
    with pytest.raises(InvalidPlan) as refusal:
        build_creation_payload(plan, created=s.AT)
    assert refusal.value.data["problems"] == [
        "workflow_id: this field is missing",
        "stages[1].name: this field is missing",
    ]


def test_misspelt_field_is_not_kept_as_an_extra_field() -> None:
    """wfctl refuses the field `depend_on` and suggests the name `depends_on`."""
    assert broken(stages=stages(depend_on=["stage-1"])) == [
        "stages[1].depend_on: unknown field; did you mean depends_on?"
    ]


def test_unknown_backend_is_named() -> None:
    """wfctl refuses a backend without a profile, and lists the existing profiles."""
    assert broken(stages=stages(backend="hpc")) == [
        "stage-2.backend: backend_profiles has no profile 'hpc'; its profiles are: local"
    ]


def test_started_workflow_is_not_accepted_as_a_plan() -> None:
    """If a stage of the plan already has a status, wfctl suggests `wfctl import` instead."""
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
def test_invalid_session_settings_are_refused(config: dict[str, Any], expected: str) -> None:
    """wfctl refuses an invalid budget, weight or mode instead of using the default."""
    (problem,) = broken(session_config=config)
    assert problem.startswith(expected)


@pytest.mark.parametrize("plan", [[], "plan", None, 3])
def test_plan_must_be_an_object(plan: Any) -> None:
    """wfctl refuses a plan that is a list, a string, null or a number."""
    with pytest.raises(InvalidPlan, match="must be an object"):
        build_creation_payload(plan, created=s.AT)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_number_without_json_form_is_refused(value: float) -> None:
    """wfctl refuses NaN and infinity as parameters, because JSON cannot represent them."""
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
def test_credentials_in_a_plan_are_refused(changes: dict[str, Any]) -> None:
    """The log keeps a plan forever, so wfctl suggests a file named by `config_path` instead."""
    [problem] = [text for text in broken(**changes) if "remote_profile" in text]
    assert "config_path" in problem


@pytest.mark.parametrize("interval", [-1, 3601, 1.5, "60", True, None])
def test_query_interval_must_be_a_number_of_seconds(interval: Any) -> None:
    """The problem names the profile, the expected range and the value."""
    [problem] = broken(backend_profiles={"local": {"query_interval": interval}})
    assert problem == (
        "backend_profiles.local.query_interval: expected a whole number of seconds from 0 to 3600; "
        f"found {interval!r}"
    )
    valid = {"backend_profiles": {"local": {"query_interval": 0}}}
    build_creation_payload({**deepcopy(s.PLAN), **valid}, created=s.AT)
