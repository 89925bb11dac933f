"""The grounds of a result: digests of its attempt, definition and tasks, and its approvals."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from lifecycle.rules.grounds import (
    build_result_grounds,
    canonical_definition_json,
    stage_definition,
)
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow
from tests.lifecycle import support as s
from tests.lifecycle.looped import with_rounds

HASH = "a" * 64


def completed_workflow() -> Workflow:
    """Return the state of a workflow whose first stage is completed."""
    return s.given(*s.through("stage-1", Status.COMPLETED))


@pytest.mark.parametrize(
    ("event", "expected"), [(HASH, HASH), (HASH[1:], None), (f"{HASH}a", None), ("", None)]
)
def test_attempt_is_identified_by_the_hash_of_a_recorded_event(
    event: str, expected: str | None
) -> None:
    """An event that is not recorded yet has no hash of 64 digits."""
    state = completed_workflow()
    stage = state.stage("stage-1")
    stage.attempts[-1].event = event
    assert build_result_grounds(state, stage).attempt == expected


def test_result_without_an_attempt_rests_on_no_attempt_and_no_tasks() -> None:
    """An imported stage may have no attempts."""
    state = s.given()
    found = build_result_grounds(state, state.stage("stage-1"))
    assert (found.attempt, found.tasks, found.round) == (None, None, None)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(None, None), ({}, None), ({"record": None}, None), ({"record": {"sha256": HASH}}, HASH)],
)
def test_result_of_a_sweep_rests_on_the_record_of_its_tasks(
    tasks: dict[str, Any] | None, expected: str | None
) -> None:
    """The digest of the file with the tasks is part of the grounds if the file is recorded."""
    state = completed_workflow()
    stage = state.stage("stage-1")
    stage.attempts[-1].tasks = tasks
    assert build_result_grounds(state, stage).tasks == expected


def test_result_in_a_loop_rests_on_its_round() -> None:
    """A stage outside of the loop has no round."""
    state = with_rounds(2)
    found = [build_result_grounds(state, state.stage(id_)).round for id_ in ("run", "tell")]
    assert found == [2, None]


def test_definition_is_canonical_json() -> None:
    """The digest is that of sorted keys without spaces, and letters are not escaped."""
    stage = {"id": "stage-1", "name": "Å", "parameters": {"b": 1, "a": [1, 2]}}
    state = s.given(plan={"workflow_id": "w", "stages": [stage]})
    text = (
        '{"backend":null,"depends_on":[],"id":"stage-1","inputs":[],"name":"Å","outputs":[],'
        '"parameters":{"a":[1,2],"b":1},"success_criteria":""}'
    )
    found = state.stage("stage-1")
    assert canonical_definition_json(found) == text.encode()
    assert build_result_grounds(state, found).definition == sha256(text.encode()).hexdigest()
    assert stage_definition(found)["parameters"] == {"b": 1, "a": [1, 2]}


def test_definition_with_bytes_of_a_file_name_can_be_hashed() -> None:
    """A file name that is not UTF-8 keeps its bytes."""
    state = s.given()
    state.stage("stage-1").inputs = ["a\udcff"]
    assert b'"inputs":["a\xff"]' in canonical_definition_json(state.stage("stage-1"))


@pytest.mark.parametrize(
    ("fields", "is_ground"),
    [
        ({"stage": None}, True),
        ({"stage": "stage-1"}, True),
        ({"stage": "stage-2"}, False),
        ({"stage": "stage-2", "also": ["stage-1"]}, True),
        ({"stage": "stage-2", "rewired": {"stage-1": {}}}, True),
        ({"stage": "stage-2", "insert": {"id": "stage-1"}}, True),
        ({"stage": "stage-2", "insert": {"id": "stage-3"}}, False),
        ({"stage": "stage-1", "status": "rejected"}, False),
        ({"stage": "stage-1", "record": {"id": "amend-1"}}, False),
        ({"stage": "stage-1", "approval": "not recorded"}, False),
    ],
)
def test_result_rests_on_the_approvals_that_affected_its_stage(
    fields: dict[str, Any], is_ground: bool
) -> None:
    """Amendments of other stages, undecided ones and records of other programs are left out."""
    known: dict[str, Any] = {"status": "approved", "approval": HASH, **fields}
    stage = known.pop("stage")
    amendment = Amendment("amend-1", "stage_rerun", stage, "because", s.AT, {}, **known)
    state = completed_workflow()
    state.amendments = {"amend-1": amendment}
    found = build_result_grounds(state, state.stage("stage-1"))
    assert found.approvals == ({"amend-1": HASH} if is_ground else {})
