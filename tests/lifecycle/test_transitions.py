"""For each pair of stage statuses, the rules allow the transition or refuse it with a reason."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from lifecycle.errors import IllegalTransition, LifecycleError, NeedsConsent
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.status import TRANSITIONS, Status, targets, transition
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

#: This copy of the published table is independent of the code, so that it detects mistakes there.
LEGAL = {
    ("pending", "ready"),
    ("ready", "preparing"),
    ("preparing", "running"),
    ("preparing", "post_processing"),
    ("preparing", "failed"),
    ("running", "post_processing"),
    ("running", "failed"),
    ("post_processing", "completed"),
    ("post_processing", "failed"),
    ("completed", "invalidated"),
    ("invalidated", "ready"),
    # This transition is not in the published table, which does not define the case that the inputs
    # of a failed stage change.
    ("failed", "invalidated"),
    ("failed", "ready"),
} | {(status.value, "skipped") for status in Status if status is not Status.SKIPPED}

BY_A_PERSON = {pair for pair in LEGAL if pair[1] in ("skipped", "invalidated")}

PAIRS = list(product(Status, Status))


def standing_at(status: Status) -> Workflow:
    """Return a workflow whose stage-2 has this status."""
    if status is Status.PENDING:
        return s.given()
    before = s.given(*s.through("stage-1", Status.COMPLETED))
    if status in (Status.INVALIDATED, Status.SKIPPED):
        done = s.given(
            *s.through("stage-1", Status.COMPLETED), *s.through("stage-2", Status.COMPLETED)
        )
        if status is Status.SKIPPED:
            ended: Payload = p.StageSkipped(stage="stage-2", amendment="amend-1")
            return s.recorded(done, *s.approved("stage_skip", "stage-2"), ended)
        ended = p.StageInvalidated(stage="stage-2", amendment="amend-1")
        return s.recorded(done, *s.approved("stage_rerun", "stage-2"), ended)
    for command in s.through("stage-2", status):
        before = state_after(before, decide(before, command, s.AT), s.AT)
    return before


def asking_for(target: Status, state: Workflow) -> Payload:
    """Return the command that would give stage-2 the target status."""
    stage = state.stage("stage-2")
    id_ = stage.attempts[-1].id if stage.attempts else "att-0001"
    if target is Status.READY and stage.status is Status.FAILED:
        return p.StageRetried(stage="stage-2", fix="put right")
    commands: dict[Status, Payload] = {
        Status.READY: p.StageReadied(stage="stage-2"),
        Status.PREPARING: p.StagePrepared(stage="stage-2"),
        Status.RUNNING: s.launched("stage-2", id_),
        Status.POST_PROCESSING: s.computed("stage-2", id_),
        Status.COMPLETED: s.completed("stage-2"),
        Status.FAILED: s.failed("stage-2"),
        Status.INVALIDATED: p.StageInvalidated(stage="stage-2", amendment="amend-9"),
        Status.SKIPPED: p.StageSkipped(stage="stage-2", amendment="amend-9"),
    }
    return commands[target]


def prepared_for(source: Status, target: Status) -> Workflow:
    """Return a workflow whose stage-2 has the source status and may change to the target status."""
    if (source, target) == (Status.PENDING, Status.READY):
        state = s.given(*s.through("stage-1", Status.COMPLETED))
        state.stage("stage-2").status = Status.PENDING
        return state
    if (source, target) == (Status.PREPARING, Status.POST_PROCESSING):
        return s.given(*s.through("stage-1", Status.COMPLETED), s.attempt("stage-2", "sync"))
    return standing_at(source)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda status: status.value)
def test_table_equals_the_published_table(source: Status, target: Status) -> None:
    """The code allows a transition exactly if the published table contains it."""
    assert (transition(source, target) is not None) == ((source.value, target.value) in LEGAL)


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if (pair[0].value, pair[1].value) in LEGAL - BY_A_PERSON],
    ids=lambda status: status.value,
)
def test_legal_transition_changes_the_status(source: Status, target: Status) -> None:
    """The command takes the stage from its source to its target status."""
    state = prepared_for(source, target)
    assert state.stage("stage-2").status is source
    new = state_after(state, decide(state, asking_for(target, state), s.AT), s.AT)
    assert new.stage("stage-2").status is target


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if (pair[0].value, pair[1].value) in BY_A_PERSON],
    ids=lambda status: status.value,
)
def test_transition_decided_by_a_person_is_refused_as_a_command(
    source: Status, target: Status
) -> None:
    """The rules refuse to skip or invalidate a stage by a command, and suggest an amendment."""
    state = standing_at(source)
    with pytest.raises(NeedsConsent, match="Propose an amendment") as refusal:
        decide(state, asking_for(target, state), s.AT)
    assert refusal.value.code == "needs_consent"
    assert refusal.value.data == {
        "stage": "stage-2",
        "status": source.value,
        "target": target.value,
    }


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if (pair[0].value, pair[1].value) in BY_A_PERSON],
    ids=lambda status: status.value,
)
def test_approved_amendment_skips_or_invalidates_a_stage(source: Status, target: Status) -> None:
    """After an approval with a valid proof, the stage is skipped or invalidated."""
    ended: Payload = (
        p.StageSkipped(stage="stage-2", amendment="amend-2")
        if target is Status.SKIPPED
        else p.StageInvalidated(stage="stage-2", amendment="amend-2")
    )
    proposal = p.AmendmentProposed(
        amendment="amend-2", kind="stage_skip", stage="stage-2", description="not needed"
    )
    approval = p.AmendmentApproved(amendment="amend-2", version=3)
    new = s.recorded(standing_at(source), proposal, approval, ended)
    assert new.stage("stage-2").status is target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pair
        for pair in PAIRS
        if (pair[0].value, pair[1].value) not in LEGAL and pair[1] is not Status.PENDING
    ],
    ids=lambda status: status.value,
)
def test_illegal_transition_is_refused_with_the_allowed_targets(
    source: Status, target: Status
) -> None:
    """The error has both statuses and the statuses to which the stage can change."""
    state = standing_at(source)
    assert state.stage("stage-2").status is source
    with pytest.raises(IllegalTransition) as refusal:
        decide(state, asking_for(target, state), s.AT)
    data: dict[str, Any] = refusal.value.data
    assert refusal.value.code == "illegal_transition"
    assert (data["stage"], data["status"], data["target"]) == ("stage-2", source, target)
    assert data["allowed"] == targets(source)
    assert f"stage-2 cannot change from {source} to {target}" in refusal.value.message


@pytest.mark.parametrize("source", list(Status), ids=lambda status: status.value)
def test_no_transition_leads_to_pending(source: Status) -> None:
    """Neither the table of transitions nor any command gives a stage the status `pending`."""
    assert all(row.target is not Status.PENDING for row in TRANSITIONS)
    state = standing_at(source)
    reached = set()
    for target in Status:
        if target is not Status.PENDING:
            reached |= _statuses_after(state, asking_for(target, state))
    assert Status.PENDING not in reached


def _statuses_after(state: Workflow, command: Payload) -> set[Status]:
    try:
        decision = decide(state, command, s.AT)
    except LifecycleError:
        return set()
    return {state_after(state, decision, s.AT).stage("stage-2").status}
