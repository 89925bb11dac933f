"""Every pair of statuses: a transition by the right event, or a refusal that says why."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from lifecycle.errors import IllegalTransition, LifecycleError, NeedsConsent
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import after, decide
from lifecycle.state.status import TRANSITIONS, Status, targets, transition
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

#: The published table, written out once more so that a slip in the code's own is seen.
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
    # The table leaves open what becomes of a failure of which the inputs change.
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
        before = after(before, decide(before, command, s.AT), s.AT)
    return before


def asking_for(target: Status, state: Workflow) -> Payload:
    """Return the command that would take stage-2 there."""
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
    """Return the state in which the transition's own conditions, beyond the status, are met."""
    if (source, target) == (Status.PENDING, Status.READY):
        state = s.given(*s.through("stage-1", Status.COMPLETED))
        state.stage("stage-2").status = Status.PENDING
        return state
    if (source, target) == (Status.PREPARING, Status.POST_PROCESSING):
        return s.given(*s.through("stage-1", Status.COMPLETED), s.attempt("stage-2", "sync"))
    return standing_at(source)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda status: status.value)
def test_the_table_holds_a_pair_exactly_when_the_protocol_does(
    source: Status, target: Status
) -> None:
    """The data is the published table, no pair more and none less."""
    assert (transition(source, target) is not None) == ((source.value, target.value) in LEGAL)


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if (pair[0].value, pair[1].value) in LEGAL - BY_A_PERSON],
    ids=lambda status: status.value,
)
def test_a_legal_transition_happens(source: Status, target: Status) -> None:
    """Given a stage at the source, when the command comes, then it stands at the target."""
    state = prepared_for(source, target)
    assert state.stage("stage-2").status is source
    new = after(state, decide(state, asking_for(target, state), s.AT), s.AT)
    assert new.stage("stage-2").status is target


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in PAIRS if (pair[0].value, pair[1].value) in BY_A_PERSON],
    ids=lambda status: status.value,
)
def test_what_only_a_person_decides_is_not_had_by_a_command(source: Status, target: Status) -> None:
    """A skip or an invalidation is refused as a command, with the way to it named."""
    state = standing_at(source)
    with pytest.raises(NeedsConsent, match="propose an amendment") as refusal:
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
def test_an_approved_amendment_makes_it_so(source: Status, target: Status) -> None:
    """Given the amendment and its accepted consent, the fold reaches the status."""
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
def test_any_other_pair_is_refused_with_the_reason(source: Status, target: Status) -> None:
    """The refusal carries a stable code, both statuses and the ways that are open."""
    state = standing_at(source)
    assert state.stage("stage-2").status is source
    with pytest.raises(IllegalTransition) as refusal:
        decide(state, asking_for(target, state), s.AT)
    data: dict[str, Any] = refusal.value.data
    assert refusal.value.code == "illegal_transition"
    assert (data["stage"], data["status"], data["target"]) == ("stage-2", source, target)
    assert data["allowed"] == targets(source)
    assert f"stage-2 is {source} and cannot become {target}" in refusal.value.message


@pytest.mark.parametrize("source", list(Status), ids=lambda status: status.value)
def test_nothing_goes_back_to_pending(source: Status) -> None:
    """No command yields pending, and no event of the table does."""
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
    return {after(state, decision, s.AT).stage("stage-2").status}
