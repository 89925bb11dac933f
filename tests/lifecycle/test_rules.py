"""Rules for stages that the table of transitions does not contain.

They concern attempts, evidence, retries, automatic consequences and consent.
"""

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
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.status import Status
from tests.lifecycle import support as s


def test_first_command_must_create_the_workflow() -> None:
    """Without a workflow, the command that prepares a stage raises NoWorkflow."""
    with pytest.raises(NoWorkflow):
        decide(None, p.StagePrepared(stage="stage-1"), s.AT)


def test_creation_readies_stages_without_dependencies() -> None:
    """The creation of a workflow and the new status of these stages are recorded in one append."""
    created = p.WorkflowCreated(document=s.given_document())
    assert s.types(decide(None, created, s.AT)) == ["workflow.created", "stage.readied"]


def test_second_creation_is_refused() -> None:
    """If the log already has a workflow, the command raises AlreadyExists."""
    state = s.given()
    with pytest.raises(AlreadyExists):
        decide(state, p.WorkflowCreated(document=s.given_document()), s.AT)


def test_attempt_prepares_a_ready_stage_and_gets_a_number() -> None:
    """The stage gets the status `preparing`, and its first attempt gets the id att-0001."""
    decision = decide(s.given(), s.attempt("stage-1"), s.AT)
    assert s.types(decision) == ["stage.prepared", "attempt.started"]
    assert decision[1].model_dump()["attempt"] == "att-0001"


def test_pending_stage_cannot_be_dispatched() -> None:
    """The rules refuse an attempt of a stage whose dependencies are not completed."""
    with pytest.raises(AttemptMismatch, match="while the stage is pending"):
        decide(s.given(), s.attempt("stage-2"), s.AT)


def test_second_attempt_is_refused_while_one_is_open() -> None:
    """The error has the id of the attempt that has not ended."""
    state = s.given(s.attempt("stage-1"))
    with pytest.raises(AttemptMismatch) as refusal:
        decide(state, s.attempt("stage-1"), s.AT)
    assert refusal.value.data["expected"] == "att-0001"


def test_pending_amendment_blocks_the_dispatch() -> None:
    """A stage cannot start until a person approves or rejects its proposed amendment."""
    proposal = p.AmendmentProposed(
        amendment="amend-1", kind="criteria_change", stage="stage-1", description="too strict"
    )
    with pytest.raises(NeedsConsent, match="amend-1"):
        decide(s.recorded(s.given(), proposal), s.attempt("stage-1"), s.AT)


def test_post_processing_requires_the_current_attempt() -> None:
    """The rules refuse the end of an attempt that is not the current attempt of the stage."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch):
        decide(state, s.computed("stage-1", "att-0007"), s.AT)


def test_stage_without_an_attempt_cannot_be_computed() -> None:
    """The rules refuse the end of a computation if the stage has no attempt."""
    state = s.given(p.StagePrepared(stage="stage-1"))
    with pytest.raises(AttemptMismatch):
        decide(state, s.computed("stage-1"), s.AT)


def test_only_a_synchronous_attempt_may_skip_running() -> None:
    """An attempt in tmux must be launched before it can end."""
    state = s.given(s.attempt("stage-1"))
    with pytest.raises(IllegalTransition, match="synchronous"):
        decide(state, s.computed("stage-1"), s.AT)


def test_nonzero_exit_code_is_not_computed() -> None:
    """The rules refuse to record a job with exit code 1 as a successful computation."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(MissingEvidence, match="exit code 1"):
        decide(state, s.computed("stage-1", exit_code=1), s.AT)


def test_completion_requires_a_check_or_evidence() -> None:
    """The rules refuse to complete a stage without a passed check and without evidence."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    with pytest.raises(MissingEvidence, match="No check or evidence was given"):
        decide(state, p.StageCompleted(stage="stage-1"), s.AT)


def test_failed_check_prevents_completion() -> None:
    """A stage with a failed check cannot be completed, even with a person's evidence."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    broken = p.Check(name="output stage-1/x", passed=False, detail="it is missing")
    with pytest.raises(MissingEvidence) as refusal:
        decide(state, p.StageCompleted(stage="stage-1", checks=[broken], evidence="fine"), s.AT)
    assert refusal.value.data["failed_checks"] == ["output stage-1/x"]


def test_completion_readies_the_dependent_stage() -> None:
    """The completion and the status `ready` of the dependent stage are recorded in one append."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    assert s.types(decide(state, s.completed("stage-1"), s.AT)) == [
        "stage.completed",
        "stage.readied",
    ]


def test_last_completed_stage_completes_the_workflow() -> None:
    """The completions of the last stage and of the workflow are recorded in one append."""
    stages = ("stage-1", "stage-2", "stage-3")
    commands = [c for stage in stages for c in s.through(stage, Status.COMPLETED)]
    decision = decide(s.given(*commands[:-1]), commands[-1], s.AT)
    assert s.types(decision) == ["stage.completed", "workflow.completed"]
    assert s.given(*commands).workflow_status == "completed"


def test_blocked_dependent_is_reported_once() -> None:
    """A failure records that its dependent stage is blocked; later events do not repeat this."""
    running = s.given(*s.through("stage-1", Status.RUNNING))
    decision = decide(running, s.failed("stage-1"), s.AT)
    assert s.types(decision) == ["stage.failed", "stage.blocked"]
    later = state_after(running, decision, s.AT)
    assert s.types(decide(later, p.NoteLogged(text="hm"), s.AT)) == ["note.logged"]


def test_second_failure_does_not_report_the_dependent_again() -> None:
    """If a stage fails again after a retry, its dependent stage is still recorded as blocked."""
    state = s.given(*s.through("stage-1", Status.FAILED), p.StageRetried(stage="stage-1", fix="x"))
    for command in (s.attempt("stage-1"), s.launched("stage-1", "att-0002")):
        state = state_after(state, decide(state, command, s.AT), s.AT)
    assert s.types(decide(state, s.failed("stage-1"), s.AT)) == ["stage.failed"]


@pytest.mark.parametrize(("kind", "limit"), [("local", 3), ("remote", 5)])
def test_retry_limit_depends_on_the_backend(kind: str, limit: int) -> None:
    """A stage on a local backend has 3 retries, and a stage on a remote backend has 5."""
    plan = {**s.PLAN, "default_backend": "b", "backend_profiles": {"b": {"type": kind}}}
    state = s.given(*s.through("stage-1", Status.FAILED), plan=plan)
    for number in range(1, limit + 1):
        decision = decide(state, p.StageRetried(stage="stage-1", fix="again"), s.AT)
        assert decision[0].model_dump()["retry"] == number
        state = state_after(state, decision, s.AT)
        state = s.recorded(state, p.StagePrepared(stage="stage-1"), s.failed("stage-1"))
    with pytest.raises(RetryLimitReached) as refusal:
        decide(state, p.StageRetried(stage="stage-1", fix="again"), s.AT)
    assert refusal.value.data["limit"] == limit
    assert state.stage("stage-1").last_error == "it broke"


def test_lost_attempt_is_replaced_once() -> None:
    """A new attempt replaces a lost one without a retry. A second lost attempt is not replaced."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING), s.observed("stage-1", "att-0001", "lost")
    )
    recovery = s.attempt("stage-1", recovers="att-0001")
    state = state_after(state, decide(state, recovery, s.AT), s.AT)
    stage = state.stage("stage-1")
    assert (stage.status, stage.retry_count, stage.attempts[-1].id) == ("running", 0, "att-0002")
    assert stage.attempts[0].outcome == "lost"
    assert stage.running_process is not None
    assert stage.running_process["recovery_attempted"] is True
    lost_again = s.recorded(state, s.observed("stage-1", "att-0002", "lost"))
    with pytest.raises(AttemptMismatch, match="lost twice"):
        decide(lost_again, s.attempt("stage-1", recovers="att-0002"), s.AT)


def test_attempt_must_be_lost_before_it_is_replaced() -> None:
    """The rules refuse an attempt that recovers an attempt which still runs."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch, match="not as lost"):
        decide(state, s.attempt("stage-1", recovers="att-0001"), s.AT)


def test_launch_of_a_synchronous_attempt_keeps_the_stage_preparing() -> None:
    """The launch adds the job ids to the attempt, and the rules refuse a second launch."""
    state = s.given(s.attempt("stage-1", "sync"))
    told = s.launched("stage-1").model_copy(update={"mode": "sync", "job_ids": ["12"]})
    state = s.recorded(state, *decide(state, told, s.AT))
    found = state.stage("stage-1")
    assert (found.status, found.attempts[-1].job_ids) == (Status.PREPARING, ["12"])
    with pytest.raises(IllegalTransition, match="is already recorded"):
        decide(state, told, s.AT)


def test_launch_must_have_the_mode_of_the_attempt() -> None:
    """The rules refuse a synchronous launch of an attempt that was started for tmux."""
    state = s.given(s.attempt("stage-1"))
    told = s.launched("stage-1").model_copy(update={"mode": "sync"})
    with pytest.raises(IllegalTransition, match="att-0001 was started in the mode tmux, not sync"):
        decide(state, told, s.AT)


def test_launch_of_a_recovered_attempt_keeps_the_stage_running() -> None:
    """The launch of the replacing attempt is recorded, and the rules refuse a second launch."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING),
        s.observed("stage-1", "att-0001", "lost"),
        s.attempt("stage-1", recovers="att-0001"),
        s.launched("stage-1", "att-0002"),
    )
    assert state.stage("stage-1").attempts[-1].launched_at == s.AT
    with pytest.raises(IllegalTransition):
        decide(state, s.launched("stage-1", "att-0002"), s.AT)


def test_changed_job_ids_are_recorded_without_a_new_launch_time() -> None:
    """A launch with other job ids replaces the ids, but not the time of the first launch."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    told = s.launched("stage-1").model_copy(update={"job_ids": ["12"]})
    decision = decide(state, told, s.AT)
    assert [payload.model_dump()["again"] for payload in decision] == [True]
    found = state_after(state, decision, "2026-03-31T11:00:00.000000Z").stage("stage-1")
    assert (found.attempts[-1].job_ids, found.attempts[-1].launched_at) == (["12"], s.AT)
    assert found.running_process is not None
    assert found.running_process["launched_at"] == s.AT


def test_failed_attempt_is_stopped_once() -> None:
    """After a failure that requests a stop, wfctl records the stop of the attempt only once."""
    stopped = p.AttemptStopped(
        stage="stage-1", attempt="att-0001", ended=["job 12"], reason="asked for"
    )
    running = s.given(*s.through("stage-1", Status.RUNNING))
    with pytest.raises(AttemptMismatch, match="ended"):
        decide(running, stopped, s.AT)
    failed = s.recorded(running, s.failed("stage-1").model_copy(update={"stop": True}))
    assert failed.stage("stage-1").attempts[-1].is_to_stop
    seen = state_after(failed, decide(failed, stopped, s.AT), s.AT)
    assert not seen.stage("stage-1").attempts[-1].is_to_stop
    assert decide(seen, stopped, s.AT) == []


def test_ended_attempt_needs_no_stop() -> None:
    """If the job has already ended, a recorded failure does not request to stop the job."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    decision = decide(state, s.failed("stage-1").model_copy(update={"stop": True}), s.AT)
    assert decision[0].model_dump()["stop"] is False


def test_repeated_observation_appends_nothing() -> None:
    """The rules record a verdict on an attempt only if it differs from the last verdict."""
    state = s.given(
        *s.through("stage-1", Status.RUNNING), s.observed("stage-1", "att-0001", "wait")
    )
    assert decide(state, s.observed("stage-1", "att-0001", "wait"), s.AT) == []
    assert decide(state, s.observed("stage-1", "att-0001", "lost"), s.AT) != []


def test_skipped_dependency_is_not_satisfied() -> None:
    """A stage that depends on a skipped stage cannot become ready."""
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
def test_append_cannot_give_consent(command: p.Payload) -> None:
    """Without a person's proof, the rules refuse an approval and the skip that follows from it."""
    proposal = p.AmendmentProposed(
        amendment="amend-1", kind="stage_skip", stage="stage-1", description="not needed"
    )
    with pytest.raises(NeedsConsent):
        decide(s.recorded(s.given(), proposal), command, s.AT)


def test_consequence_cannot_be_a_command() -> None:
    """The rules refuse a command that completes the workflow, because only stages complete it."""
    with pytest.raises(NoCommand):
        decide(s.given(), p.WorkflowCompleted(stages=3), s.AT)


def test_unknown_stage_is_named_with_the_known_stages() -> None:
    """The error for an unknown stage lists all stages of the workflow."""
    with pytest.raises(UnknownStage, match="stage-1, stage-2, stage-3"):
        decide(s.given(), p.StagePrepared(stage="stage-9"), s.AT)


def test_sessions_are_numbered_by_the_log() -> None:
    """Sessions get the numbers 1 and 2, and the rules refuse the end of no session."""
    state = s.given()
    with pytest.raises(NoCommand):
        decide(state, p.SessionEnded(reason="completed"), s.AT)
    for number in (1, 2):
        state = state_after(state, decide(state, p.SessionStarted(), s.AT), s.AT)
        assert (state.session.count, state.session.cost) == (number, 0)


def test_diagnostic_run_is_a_retry_and_always_fails() -> None:
    """A diagnostic run counts as a retry, and the rules refuse to record its success."""
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
def test_diagnostic_run_requires_a_failure(status: Status) -> None:
    """The rules refuse a diagnostic run of a stage that has not failed."""
    with pytest.raises(IllegalTransition):
        decide(s.given(*s.through("stage-1", status)), s.attempt("stage-1", diagnostic=True), s.AT)
