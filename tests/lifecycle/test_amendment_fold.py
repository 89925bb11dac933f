"""The effect of approved and rejected amendments on the state of a workflow."""

from __future__ import annotations

from lifecycle.payload import models as p
from lifecycle.rules.decide import decide
from lifecycle.state.status import Status
from tests.lifecycle import support as s

CHANGE = {"parameters": {"tolerance": {"old": 1e-4, "new": 1e-6}, "seed": {"old": 3}}}


def test_approved_change_updates_parameters_and_version() -> None:
    """An approval changes the parameters of the stage and increases the version of the plan."""
    plan = {**s.PLAN, "stages": [{"id": "stage-1", "name": "A", "parameters": _parameters()}]}
    state = s.recorded(
        s.given(plan=plan), *s.approved("parameter_change", "stage-1", changes=CHANGE)
    )
    assert state.stage("stage-1").parameters == {"tolerance": 1e-6}
    assert state.version == 2
    assert state.amendments["amend-1"].status == "approved"


def _parameters() -> dict[str, object]:
    return {"tolerance": 1e-4, "seed": 3}


def test_approval_without_an_accepted_proof_changes_nothing() -> None:
    """If the log has an approval without a valid proof of consent, the state ignores it."""
    skipped = p.StageSkipped(stage="stage-1", amendment="amend-1")
    before = s.given()
    state = s.recorded(before, *s.approved("stage_skip", "stage-1"), skipped, accepted=frozenset())
    assert state.stage("stage-1").status is Status.READY
    assert state.version == before.version
    assert state.amendments["amend-1"].status == "proposed"


def test_rejected_amendment_cannot_be_approved_later() -> None:
    """If the log has an approval after the rejection, the state ignores the approval."""
    proposal, approval = s.approved("stage_skip", "stage-1")
    state = s.recorded(s.given(), proposal, p.AmendmentRejected(amendment="amend-1"), approval)
    assert state.amendments["amend-1"].status == "rejected"
    assert state.version == 1


def test_inserted_stage_takes_the_given_position() -> None:
    """A stage inserted at position 1 becomes the second stage."""
    new = {"id": "stage-4", "name": "Check", "depends_on": ["stage-1"]}
    state = s.recorded(s.given(), *s.approved("stage_insert", insert=new, place=1))
    assert list(state.stages) == ["stage-1", "stage-4", "stage-2", "stage-3"]


def test_invalidated_stage_is_reset_when_it_becomes_ready() -> None:
    """The start time, the end time and the number of retries of the stage are cleared."""
    done = s.given(*s.through("stage-1", Status.COMPLETED))
    state = s.recorded(
        done,
        *s.approved("stage_rerun", "stage-1"),
        p.StageInvalidated(stage="stage-1", amendment="amend-1"),
        p.StageReadied(stage="stage-1", reset=True),
    )
    stage = state.stage("stage-1")
    assert (stage.status, stage.started_at, stage.completed_at) == (Status.READY, None, None)
    assert (stage.retry_count, stage.running_process) == (0, None)


def test_superseded_attempt_is_no_retry() -> None:
    """If an amendment stops a running attempt, the stage is ready again without a retry."""
    running = s.given(*s.through("stage-1", Status.RUNNING))
    state = s.recorded(
        running,
        *s.approved("parameter_change", "stage-1"),
        p.StageFailed(stage="stage-1", error="superseded", superseded_by="amend-1"),
        p.StageReadied(stage="stage-1", reason="superseded", amendment="amend-1"),
    )
    stage = state.stage("stage-1")
    assert (stage.status, stage.retry_count) == (Status.READY, 0)
    assert stage.attempts[-1].outcome == "superseded"


def test_fold_does_not_modify_its_input_state() -> None:
    """Applying events returns a new state and leaves the original state unchanged."""
    before = s.given()
    copy = s.given()
    s.recorded(before, *s.approved("stage_skip", "stage-1"), s.attempt("stage-1"))
    assert before == copy


def test_second_approved_skip_of_a_stage_records_no_skip() -> None:
    """If two skips of a stage were proposed, only the first approval records that it is skipped."""
    skip = p.AmendmentProposed(kind="stage_skip", stage="stage-2", description="not needed")
    first, second = (
        p.AmendmentApproved(amendment=f"amend-{number}", proof={"policy": "trust"})
        for number in (1, 2)
    )
    state = s.given(skip, skip, first)
    assert s.types(decide(state, second, s.AT)) == ["amendment.approved"]
