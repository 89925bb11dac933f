"""The rules beyond the table: attempts, evidence, retries, consequences, consent."""

from __future__ import annotations

import pytest

from lifecycle.errors import (
    AlreadyExists,
    AttemptMismatch,
    DependenciesNotMet,
    IllegalTransition,
    MissingEvidence,
    NeedsConsent,
    NoCommand,
    NoWorkflow,
    RetryLimitReached,
    UnknownStage,
)
from lifecycle.payload import models as p
from lifecycle.rules.decide import after, decide
from lifecycle.state.status import Status
from tests.lifecycle import support as s


def test_a_first_command_must_create_the_workflow() -> None:
    """Given nothing, when a stage is prepared, then there is no workflow to do it in."""
    with pytest.raises(NoWorkflow):
        decide(None, p.StagePrepared(stage="stage-1"), s.AT)


def test_a_stage_without_dependencies_is_readied_with_the_creation() -> None:
    """Given nothing, when the workflow is created, then its first stage is ready in one append."""
    created = p.WorkflowCreated(document=s.given_document())
    assert s.types(decide(None, created, s.AT)) == ["workflow.created", "stage.readied"]


def test_a_second_creation_is_refused() -> None:
    """Given a workflow, when another is created in its stream, then it exists already."""
    state = s.given()
    with pytest.raises(AlreadyExists):
        decide(state, p.WorkflowCreated(document=s.given_document()), s.AT)


def test_dispatching_a_ready_stage_prepares_it_and_numbers_the_attempt() -> None:
    """Given a ready stage, when an attempt starts, it is prepared and att-0001 is under way."""
    decision = decide(s.given(), s.attempt("stage-1"), s.AT)
    assert s.types(decision) == ["stage.prepared", "attempt.started"]
    assert decision[1].model_dump()["attempt"] == "att-0001"


def test_a_pending_stage_is_not_dispatched() -> None:
    """Given a stage that waits for another, when an attempt starts, then it is refused."""
    with pytest.raises(AttemptMismatch, match="while it is pending"):
        decide(s.given(), s.attempt("stage-2"), s.AT)


def test_one_attempt_at_a_time() -> None:
    """Given an attempt under way, when another starts, then it is refused with its id."""
    state = s.given(s.attempt("stage-1"))
    with pytest.raises(AttemptMismatch) as refusal:
        decide(state, s.attempt("stage-1"), s.AT)
    assert refusal.value.data["expected"] == "att-0001"


def test_nothing_is_dispatched_while_an_amendment_waits() -> None:
    """Given a proposal, when a stage is dispatched, then a person must decide first."""
    proposal = p.AmendmentProposed(
        amendment="amend-1", kind="criteria_change", stage="stage-1", description="too strict"
    )
    with pytest.raises(NeedsConsent, match="amend-1"):
        decide(s.recorded(s.given(), proposal), s.attempt("stage-1"), s.AT)


def test_post_processing_needs_the_attempt_that_is_under_way() -> None:
    """Given att-0001, when the end of another attempt is recorded, then it is refused."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch):
        decide(state, s.computed("stage-1", "att-0007"), s.AT)


def test_a_stage_that_was_prepared_by_hand_has_computed_nothing() -> None:
    """Given preparing without an attempt, when post_processing is claimed, then it is refused."""
    state = s.given(p.StagePrepared(stage="stage-1"))
    with pytest.raises(AttemptMismatch):
        decide(state, s.computed("stage-1"), s.AT)


def test_only_a_synchronous_attempt_passes_over_running() -> None:
    """Given a tmux attempt not launched yet, when it is said to be computed, then it is refused."""
    state = s.given(s.attempt("stage-1"))
    with pytest.raises(IllegalTransition, match="synchronous"):
        decide(state, s.computed("stage-1"), s.AT)


def test_an_exit_code_other_than_0_is_a_failure() -> None:
    """Given a running stage, when it is computed with exit code 1, then it is refused."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(MissingEvidence, match="found 1"):
        decide(state, s.computed("stage-1", exit_code=1), s.AT)


def test_completed_needs_something_that_shows_it() -> None:
    """Given post_processing, when completed comes with no check and no evidence: refused."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    with pytest.raises(MissingEvidence, match="found neither"):
        decide(state, p.StageCompleted(stage="stage-1"), s.AT)


def test_completed_is_refused_where_a_check_failed() -> None:
    """Given post_processing, when a failed check comes along, then evidence does not help."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    broken = p.Check(name="output stage-1/x", passed=False, detail="it is missing")
    with pytest.raises(MissingEvidence) as refusal:
        decide(state, p.StageCompleted(stage="stage-1", checks=[broken], evidence="fine"), s.AT)
    assert refusal.value.data["failed_checks"] == ["output stage-1/x"]


def test_completing_readies_what_waited_for_it() -> None:
    """Given stage-1 checked, when it completes, then stage-2 is readied in the same append."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    assert s.types(decide(state, s.completed("stage-1"), s.AT)) == [
        "stage.completed",
        "stage.readied",
    ]


def test_the_last_stage_completes_the_workflow() -> None:
    """Given all but one completed, when it completes, then so does the workflow."""
    stages = ("stage-1", "stage-2", "stage-3")
    commands = [c for stage in stages for c in s.through(stage, Status.COMPLETED)]
    decision = decide(s.given(*commands[:-1]), commands[-1], s.AT)
    assert s.types(decision) == ["stage.completed", "workflow.completed"]
    assert s.given(*commands).workflow_status == "completed"


def test_a_failure_is_said_to_block_once() -> None:
    """Given a failure, its dependent is called blocked then, and not again by the next event."""
    running = s.given(*s.through("stage-1", Status.RUNNING))
    decision = decide(running, s.failed("stage-1"), s.AT)
    assert s.types(decision) == ["stage.failed", "stage.blocked"]
    later = after(running, decision, s.AT)
    assert s.types(decide(later, p.NoteLogged(text="hm"), s.AT)) == ["note.logged"]


def test_a_dependency_that_fails_again_is_not_said_to_block_again() -> None:
    """Given a warning and a retry, when it fails again, then once was enough."""
    state = s.given(*s.through("stage-1", Status.FAILED), p.StageRetried(stage="stage-1", fix="x"))
    for command in (s.attempt("stage-1"), s.launched("stage-1", "att-0002")):
        state = after(state, decide(state, command, s.AT), s.AT)
    assert s.types(decide(state, s.failed("stage-1"), s.AT)) == ["stage.failed"]


@pytest.mark.parametrize(("kind", "limit"), [("local", 3), ("remote", 5)])
def test_the_retry_limit_goes_by_the_backend(kind: str, limit: int) -> None:
    """Given a stage that keeps failing, its retries end at the limit of its backend."""
    plan = {**s.PLAN, "default_backend": "b", "backend_profiles": {"b": {"type": kind}}}
    state = s.given(*s.through("stage-1", Status.FAILED), plan=plan)
    for number in range(1, limit + 1):
        decision = decide(state, p.StageRetried(stage="stage-1", fix="again"), s.AT)
        assert decision[0].model_dump()["retry"] == number
        state = after(state, decision, s.AT)
        state = s.recorded(state, p.StagePrepared(stage="stage-1"), s.failed("stage-1"))
    with pytest.raises(RetryLimitReached) as refusal:
        decide(state, p.StageRetried(stage="stage-1", fix="again"), s.AT)
    assert refusal.value.data["limit"] == limit
    assert state.stage("stage-1").last_error == "it broke"


def test_a_lost_attempt_is_replaced_once_without_counting() -> None:
    """Given an attempt seen to be lost, one new attempt takes its place; the next loss does not."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING), s.observed("stage-1", "att-0001", "lost")
    )
    recovery = s.attempt("stage-1", recovers="att-0001")
    state = after(state, decide(state, recovery, s.AT), s.AT)
    stage = state.stage("stage-1")
    assert (stage.status, stage.retry_count, stage.attempts[-1].id) == ("running", 0, "att-0002")
    assert stage.attempts[0].outcome == "lost"
    assert stage.running_process is not None
    assert stage.running_process["recovery_attempted"] is True
    lost_again = s.recorded(state, s.observed("stage-1", "att-0002", "lost"))
    with pytest.raises(AttemptMismatch, match="lost twice"):
        decide(lost_again, s.attempt("stage-1", recovers="att-0002"), s.AT)


def test_an_attempt_that_was_not_seen_to_be_lost_is_not_replaced() -> None:
    """Given a running attempt, when somebody recovers it, then it is refused."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch, match="not as lost"):
        decide(state, s.attempt("stage-1", recovers="att-0001"), s.AT)


def test_a_synchronous_attempt_is_launched_while_its_stage_is_preparing() -> None:
    """Given one, when its launch is recorded, then it has its jobs and never shows running."""
    state = s.given(s.attempt("stage-1", "sync"))
    told = s.launched("stage-1").model_copy(update={"mode": "sync", "job_ids": ["12"]})
    state = s.recorded(state, *decide(state, told, s.AT))
    found = state.stage("stage-1")
    assert (found.status, found.attempts[-1].job_ids) == (Status.PREPARING, ["12"])
    with pytest.raises(IllegalTransition, match="recorded as launched"):
        decide(state, told, s.AT)


def test_an_attempt_that_others_wait_for_is_not_launched_as_a_synchronous_one() -> None:
    """Given a tmux attempt, when it is said to be launched synchronously, then it is refused."""
    state = s.given(s.attempt("stage-1"))
    told = s.launched("stage-1").model_copy(update={"mode": "sync"})
    with pytest.raises(IllegalTransition, match="att-0001 was started tmux, not sync"):
        decide(state, told, s.AT)


def test_a_recovered_attempt_is_launched_while_the_stage_stays_running() -> None:
    """Given a recovery, when its launch is recorded, then the stage is running as before."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING),
        s.observed("stage-1", "att-0001", "lost"),
        s.attempt("stage-1", recovers="att-0001"),
        s.launched("stage-1", "att-0002"),
    )
    assert state.stage("stage-1").attempts[-1].launched_at == s.AT
    with pytest.raises(IllegalTransition):
        decide(state, s.launched("stage-1", "att-0002"), s.AT)


def test_jobs_that_are_others_since_are_recorded_and_move_no_time() -> None:
    """Given a launch, when other jobs are told, then they count, and its time stays the first."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    told = s.launched("stage-1").model_copy(update={"job_ids": ["12"]})
    decision = decide(state, told, s.AT)
    assert [payload.model_dump()["again"] for payload in decision] == [True]
    found = after(state, decision, "2026-03-31T11:00:00.000000Z").stage("stage-1")
    assert (found.attempts[-1].job_ids, found.attempts[-1].launched_at) == (["12"], s.AT)
    assert found.running_process is not None
    assert found.running_process["launched_at"] == s.AT


def test_an_attempt_is_to_be_stopped_until_it_is_seen_to_be() -> None:
    """Given a failure that asks for it, when it is said to be stopped, then once and for all."""
    stopped = p.AttemptStopped(
        stage="stage-1", attempt="att-0001", ended=["job 12"], reason="asked for"
    )
    running = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch, match="over"):
        decide(running, stopped, s.AT)
    failed = s.recorded(running, s.failed("stage-1").model_copy(update={"stop": True}))
    assert failed.stage("stage-1").attempts[-1].is_to_stop
    seen = after(failed, decide(failed, stopped, s.AT), s.AT)
    assert not seen.stage("stage-1").attempts[-1].is_to_stop
    assert decide(seen, stopped, s.AT) == []


def test_what_is_over_needs_no_stopping() -> None:
    """Given a computed stage, when it fails and is to be stopped, then nothing is left to stop."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    decision = decide(state, s.failed("stage-1").model_copy(update={"stop": True}), s.AT)
    assert decision[0].model_dump()["stop"] is False


def test_an_observation_that_says_nothing_new_yields_nothing() -> None:
    """Given a verdict, when the same comes again, then no event; when another, then one."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING), s.observed("stage-1", "att-0001", "wait")
    )
    assert decide(state, s.observed("stage-1", "att-0001", "wait"), s.AT) == []
    assert decide(state, s.observed("stage-1", "att-0001", "lost"), s.AT) != []


def test_a_skipped_dependency_does_not_satisfy() -> None:
    """Given stage-1 skipped, when stage-2 is readied by hand, then it waits for stage-1."""
    skipped = p.StageSkipped(stage="stage-1", amendment="amend-1")
    state = s.recorded(s.given(), *s.approved("stage_skip", "stage-1"), skipped)
    with pytest.raises(DependenciesNotMet) as refusal:
        decide(state, p.StageReadied(stage="stage-2"), s.AT)
    assert refusal.value.data["waiting_for"] == {"stage-1": "skipped"}


@pytest.mark.parametrize(
    "command",
    [
        p.AmendmentApproved(amendment="amend-1", version=2, approved_by="user"),
        p.StageSkipped(stage="stage-1", amendment="amend-1"),
    ],
    ids=lambda command: command.type,
)
def test_append_never_gives_consent(command: p.Payload) -> None:
    """Given a proposal, when somebody appends its approval, then a person is needed."""
    proposal = p.AmendmentProposed(
        amendment="amend-1", kind="stage_skip", stage="stage-1", description="not needed"
    )
    with pytest.raises(NeedsConsent):
        decide(s.recorded(s.given(), proposal), command, s.AT)


def test_a_consequence_is_no_command() -> None:
    """Given a workflow, when its completion is claimed, then it follows from others only."""
    with pytest.raises(NoCommand):
        decide(s.given(), p.WorkflowCompleted(stages=3), s.AT)


def test_a_stage_that_is_not_there_is_named_with_those_that_are() -> None:
    """Given three stages, when stage-9 is prepared, then the error lists the three."""
    with pytest.raises(UnknownStage, match="stage-1, stage-2, stage-3"):
        decide(s.given(), p.StagePrepared(stage="stage-9"), s.AT)


def test_sessions_are_numbered_by_the_log() -> None:
    """Given no session, when two start, then they are 1 and 2; none ends that did not start."""
    state = s.given()
    with pytest.raises(NoCommand):
        decide(state, p.SessionEnded(reason="completed"), s.AT)
    for number in (1, 2):
        state = after(state, decide(state, p.SessionStarted(), s.AT), s.AT)
        assert (state.session.count, state.session.cost) == (number, 0)


def test_a_diagnostic_run_counts_as_a_retry_and_cannot_compute() -> None:
    """It follows a failure, and whatever its exit code is, it ends in failed."""
    state = s.given(*s.through("stage-1", Status.FAILED))
    decision = decide(state, s.attempt("stage-1", diagnostic=True), s.AT)
    assert s.types(decision) == ["stage.retried", "stage.prepared", "attempt.started"]
    running = s.given(
        *s.through("stage-1", Status.FAILED),
        s.attempt("stage-1", diagnostic=True),
        s.launched("stage-1", "att-0002"),
    )
    assert running.stages["stage-1"].retry_count == 1
    with pytest.raises(IllegalTransition):
        decide(running, s.computed("stage-1", "att-0002"), s.AT)
    assert s.types(decide(running, s.failed("stage-1"), s.AT)) == ["stage.failed"]


@pytest.mark.parametrize("status", [Status.READY, Status.RUNNING, Status.COMPLETED])
def test_a_diagnostic_run_needs_a_failure(status: Status) -> None:
    """There is nothing to be diagnosed before one."""
    with pytest.raises(IllegalTransition):
        decide(s.given(*s.through("stage-1", status)), s.attempt("stage-1", diagnostic=True), s.AT)
