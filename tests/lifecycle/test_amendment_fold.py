"""The fold of amendments: what takes effect, and what does not without consent."""

from __future__ import annotations

from lifecycle.payload import models as p
from lifecycle.state.status import Status
from tests.lifecycle import support as s

CHANGE = {"parameters": {"tolerance": {"old": 1e-4, "new": 1e-6}, "seed": {"old": 3}}}


def test_an_approved_change_is_applied_and_recorded() -> None:
    """Given a change of parameters, when a person agreed, then fields, version and record."""
    plan = {**s.PLAN, "stages": [{"id": "stage-1", "name": "A", "parameters": _parameters()}]}
    state = s.recorded(
        s.given(plan=plan), *s.approved("parameter_change", "stage-1", changes=CHANGE)
    )
    assert state.stage("stage-1").parameters == {"tolerance": 1e-6}
    assert state.version == 2
    assert state.amendments["amend-1"].status == "approved"


def _parameters() -> dict[str, object]:
    return {"tolerance": 1e-4, "seed": 3}


def test_an_approval_without_an_accepted_proof_changes_nothing() -> None:
    """Given an approval row that nobody vouches for, the state is as before, and says so."""
    skipped = p.StageSkipped(stage="stage-1", amendment="amend-1")
    before = s.given()
    state = s.recorded(before, *s.approved("stage_skip", "stage-1"), skipped, accepted=frozenset())
    assert state.stage("stage-1").status is Status.READY
    assert state.version == before.version
    assert state.amendments["amend-1"].status == "proposed"


def test_a_rejected_amendment_cannot_be_approved_later() -> None:
    """Given a rejection, when an approval follows, then nothing changes."""
    proposal, approval = s.approved("stage_skip", "stage-1")
    state = s.recorded(s.given(), proposal, p.AmendmentRejected(amendment="amend-1"), approval)
    assert state.amendments["amend-1"].status == "rejected"
    assert state.version == 1


def test_an_inserted_stage_takes_its_place_in_the_array() -> None:
    """Given an insert at place 1, the new stage stands there with the next number."""
    new = {"id": "stage-4", "name": "Check", "depends_on": ["stage-1"]}
    state = s.recorded(s.given(), *s.approved("stage_insert", insert=new, place=1))
    assert list(state.stages) == ["stage-1", "stage-4", "stage-2", "stage-3"]


def test_an_invalidated_stage_is_readied_with_a_clean_slate() -> None:
    """Given an invalidation and its readying, times and retry count start from nothing."""
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


def test_a_superseded_attempt_is_not_counted_as_a_retry() -> None:
    """Given a running stage, when an amendment supersedes it, then it is ready, not retried."""
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


def test_the_fold_leaves_the_state_it_started_from_alone() -> None:
    """Given a state, when events are folded onto it, then the old one is what it was."""
    before = s.given()
    copy = s.given()
    s.recorded(before, *s.approved("stage_skip", "stage-1"), s.attempt("stage-1"))
    assert before == copy
