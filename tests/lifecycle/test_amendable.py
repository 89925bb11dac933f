"""Changes of fields: named by paths, malformed, stale, or computed from an edited plan."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lifecycle.errors import InvalidAmendment, StaleAmendment
from lifecycle.rules.amendable import (
    build_changes_from_paths,
    build_plan_change,
    check_old_values,
    fill_in_old_values,
    find_malformed_changes,
)
from tests.lifecycle import support as s
from tests.lifecycle.test_proposals import with_parameters


@pytest.mark.parametrize("path", ["name", "parameters", "parameters.", "parameters.a.b", "name.x"])
def test_only_a_key_can_be_removed(path: str) -> None:
    """A field itself, and a value below a key, cannot be removed."""
    with pytest.raises(InvalidAmendment, match=re.escape(f"{path}: only a key such as")):
        build_changes_from_paths(with_parameters(a={"b": 1}).stage("stage-1"), {}, (path,))
    removed = build_changes_from_paths(with_parameters(a=1).stage("stage-1"), {}, ("parameters.a",))
    assert removed == {"parameters": {"a": {}}}


def test_each_malformed_change_is_reported() -> None:
    """The problems of all fields are listed, not only the first."""
    changes = {"parameters": {}, "session_config": {"session_id": {"new": 1}}, "name": {"old": 1}}
    found = list(find_malformed_changes(changes))
    assert [one.partition(" ")[0] for one in found] == [
        "parameters:",
        "session_config.session_id",
        "name:",
    ]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"name": {"old": "X", "new": "Y"}}, "name"),
        ({"parameters": {"a": {"old": 1}}}, "parameters.a"),
    ],
)
def test_stale_value_is_named_by_its_path(changes: dict[str, Any], place: str) -> None:
    """A field is named by itself, and a key by the field and the key."""
    with pytest.raises(StaleAmendment) as refusal:
        check_old_values(with_parameters(a=2).stage("stage-1"), changes)
    assert refusal.value.data["place"] == place


def test_value_from_the_plan_is_no_old_value_of_a_stage() -> None:
    """A stage that uses a parameter of the plan can get a value of its own."""
    state = s.given(
        plan={
            "workflow_id": "w",
            "parameters": {"T": 300},
            "stages": [{"id": "stage-1", "name": "Run", "parameters": {"use": ["T"], "P": 1}}],
        }
    )
    changes = {"parameters": {"T": {"new": 310}, "P": {"new": 2}}}
    assert fill_in_old_values(state.stage("stage-1"), changes) == {
        "parameters": {"T": {"new": 310}, "P": {"old": 1, "new": 2}}
    }
    plan = {"parameters": {"T": {"new": 310}}}
    assert fill_in_old_values(state, plan) == {"parameters": {"T": {"old": 300, "new": 310}}}


def test_applied_plan_changes_no_value_that_sessions_set() -> None:
    """The number of sessions in an edited plan is ignored, and other settings are changed."""
    stages = [{"id": "stage-1", "name": "Run", "parameters": {"session_id": 1}}]
    state = s.given(plan={"workflow_id": "w", "stages": stages})
    settings = {**state.session_config, "session_count": 7}
    edited = s.given(plan={"workflow_id": "w", "stages": stages})
    edited.session_config = settings
    assert build_plan_change(state, edited, None) is None
    edited.session_config = {**settings, "session_budget": 99}
    edited.stage("stage-1").parameters = {"session_id": 2}
    change = build_plan_change(state, edited, None)
    assert change is not None
    assert change.changes == {"session_config": {"session_budget": {"new": 99}}}
    assert change.rewired == {"stage-1": {"parameters": {"session_id": {"new": 2}}}}


def test_applied_plan_can_add_only_one_stage() -> None:
    """The error names all new stages."""
    stages = [{"id": "stage-1", "name": "Run"}]
    more = [{"id": name, "name": name} for name in ("check", "plot")]
    state, edited = (
        s.given(plan={"workflow_id": "w", "stages": one}) for one in (stages, [*stages, *more])
    )
    with pytest.raises(InvalidAmendment, match="only one stage at a time, found check, plot"):
        build_plan_change(state, edited, None)
