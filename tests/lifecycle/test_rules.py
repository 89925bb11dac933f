"""Rules for stages that the table of transitions does not contain.

They concern attempts, evidence, retries, automatic consequences and consent.
"""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.errors import (
    AlreadyExists,
    AttemptMismatch,
    DependenciesNotMet,
    IllegalTransition,
    InvalidPayload,
    MissingEvidence,
    NeedsConsent,
    NoCommand,
    NothingToBuildFrom,
    NoWorkflow,
    RetryLimitReached,
    UnknownStage,
)
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide, state_after
from lifecycle.rules.grounds import build_result_grounds
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from lifecycle.words.failure_cause import get_cause_and_full_text
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


def test_change_of_status_that_no_event_allows_is_refused() -> None:
    """The error states that the table of transitions does not contain the change."""
    with pytest.raises(IllegalTransition, match="not in the transition table"):
        decide(s.given(), s.completed("stage-1"), s.AT)


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


def create_unapproved_state() -> Workflow:
    """Return the state of a workflow whose plan no person has approved."""
    created = p.WorkflowCreated(document=s.given_document())
    return state_after(None, decide(None, created, s.AT), s.AT)


@pytest.mark.parametrize(
    ("command", "start", "data"),
    [
        (s.attempt("stage-1"), "stage-1 is not dispatched, because", {"stage": "stage-1"}),
        (
            p.StagePrepared(stage="stage-1"),
            "stage-1 is not prepared, because",
            {"stage": "stage-1"},
        ),
        (p.SessionStarted(), "the session cannot start, because", {}),
    ],
    ids=["attempt", "preparation", "session"],
)
def test_nothing_runs_before_a_person_approved_the_plan(
    command: p.Payload, start: str, data: dict[str, str]
) -> None:
    """The error names the stage, if the command names one, and the plan."""
    with pytest.raises(NeedsConsent) as refusal:
        decide(create_unapproved_state(), command, s.AT)
    assert str(refusal.value).startswith(start)
    assert refusal.value.data == {**data, "amendments": ["plan"]}


def test_dispatch_names_each_amendment_that_waits() -> None:
    """The error lists the stage and the undecided amendments."""
    proposal = p.AmendmentProposed(amendment="amend-1", kind="plan_change", description="because")
    with pytest.raises(NeedsConsent) as refusal:
        decide(s.recorded(s.given(), proposal), s.attempt("stage-1"), s.AT)
    assert refusal.value.data == {"stage": "stage-1", "amendments": ["amend-1"]}


@pytest.mark.parametrize(
    ("status", "is_reset"), [(Status.PENDING, False), (Status.INVALIDATED, True)]
)
def test_invalidated_stage_is_reset_when_it_becomes_ready(status: Status, is_reset: bool) -> None:
    """A stage that ran before loses its times and retries, by a command and as a consequence."""
    done = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    state, stage = s.recorded(done, s.completed("stage-1")), "stage-2"
    if status is Status.INVALIDATED:
        proposal, approval = s.approved("stage_rerun", "stage-1")
        invalid = p.StageInvalidated(stage="stage-1", amendment="amend-1")
        state, stage = s.recorded(state, proposal, approval, invalid), "stage-1"
    assert state.stage(stage).status is status
    readied = p.StageReadied(stage=stage, reset=is_reset)
    assert decide(state, p.StageReadied(stage=stage), s.AT) == [readied]
    assert readied in decide(state, p.NoteLogged(text="hm"), s.AT)


def test_failed_stage_does_not_become_ready_by_a_command() -> None:
    """A failed stage needs a retry or an approved rerun."""
    state = s.given(*s.through("stage-1", Status.FAILED))
    with pytest.raises(IllegalTransition, match="a retry or an approved stage_rerun"):
        decide(state, p.StageReadied(stage="stage-1"), s.AT)


@pytest.mark.parametrize(
    ("status", "command", "field"),
    [
        (Status.POST_PROCESSING, p.StageCompleted(stage="stage-1", evidence="TEXT"), "evidence"),
        (Status.RUNNING, p.StageFailed(stage="stage-1", error="TEXT"), "error"),
        (Status.FAILED, p.StageRetried(stage="stage-1", fix="TEXT"), "fix"),
    ],
    ids=["evidence", "error", "fix"],
)
def test_placeholder_of_the_documentation_is_no_text(
    status: Status, command: p.Payload, field: str
) -> None:
    """The error has the name of the field."""
    with pytest.raises(MissingEvidence) as refusal:
        decide(s.given(*s.through("stage-1", status)), command, s.AT)
    assert refusal.value.data == {"stage": "stage-1", "field": field}


def test_passed_check_completes_a_stage_without_evidence() -> None:
    """The completion has the definition on which the result rests."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    passed = p.Check(name="output stage-1/x", passed=True)
    command = p.StageCompleted(stage="stage-1", checks=[passed])
    completed = decide(state, command, s.AT)[0]
    grounds = build_result_grounds(state, state.stage("stage-1"))
    assert completed == command.model_copy(update={"rests_on": grounds})


def test_failed_checks_are_listed_with_their_details() -> None:
    """The message has the failed checks, and not the passed ones."""
    state = s.given(*s.through("stage-1", Status.POST_PROCESSING))
    checks = [p.Check(name=name, passed=name == "b", detail=f"{name}!") for name in "abc"]
    with pytest.raises(MissingEvidence, match=r"These checks failed: a: a!; c: c!\.") as refusal:
        decide(state, p.StageCompleted(stage="stage-1", checks=checks), s.AT)
    assert refusal.value.data == {"stage": "stage-1", "failed_checks": ["a", "c"]}


def test_attempt_with_an_earlier_definition_does_not_complete_the_stage() -> None:
    """The error has the attempt and the amendment that changed the stage since its start."""
    proposal, approval = s.approved("stage_rerun", "stage-1")
    affected = approval.model_copy(update={"invalidated_stages": ["stage-1"]})
    running = s.given(*s.through("stage-1", Status.RUNNING))
    state = s.recorded(running, proposal, affected, s.computed("stage-1"))
    with pytest.raises(MissingEvidence) as refusal:
        decide(state, s.completed("stage-1"), s.AT)
    expected = {"stage": "stage-1", "attempt": "att-0001", "amendment": "amend-1"}
    assert refusal.value.data == expected


def test_failure_by_an_amendment_needs_its_approval() -> None:
    """A command cannot state that an amendment ended the attempt."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    command = s.failed("stage-1").model_copy(update={"superseded_by": "amend-1"})
    with pytest.raises(NeedsConsent, match="only an amendment"):
        decide(state, command, s.AT)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.POST_PROCESSING])
def test_failure_names_the_running_attempt(status: Status) -> None:
    """Another attempt is refused while the attempt runs. Later, the check of results fails."""
    state = s.given(*s.through("stage-1", status))
    own, other = (
        s.failed("stage-1").model_copy(update={"attempt": id_}) for id_ in ("att-0001", "att-0002")
    )
    assert decide(state, own, s.AT)[0] == own
    if status is Status.RUNNING:
        with pytest.raises(AttemptMismatch):
            decide(state, other, s.AT)
    else:
        assert decide(state, other, s.AT)[0] == other


def test_failure_has_the_last_line_of_a_traceback_and_its_full_text() -> None:
    """The full text is recorded as output, unless the command has its own output."""
    text = "Traceback (most recent call last):\n  File x\nValueError: bad\n"
    state = s.given(*s.through("stage-1", Status.RUNNING))
    command = p.StageFailed(stage="stage-1", error=text)
    error, output = get_cause_and_full_text(text)
    assert decide(state, command, s.AT)[0] == p.StageFailed(
        stage="stage-1", error=error, output=output
    )
    own = decide(state, command.model_copy(update={"output": "own"}), s.AT)[0]
    assert own == p.StageFailed(stage="stage-1", error=error, output="own")
    assert output


@pytest.mark.parametrize("stop", [True, False])
def test_failure_of_a_running_attempt_requests_a_stop_only_on_demand(stop: bool) -> None:
    """The running attempt is stopped only if the command requests it."""
    command = s.failed("stage-1").model_copy(update={"stop": stop})
    decision = decide(s.given(*s.through("stage-1", Status.RUNNING)), command, s.AT)
    assert decision[0].model_dump()["stop"] is stop


@pytest.mark.parametrize("command", [None, "run"])
def test_submission_is_built_again_only_for_a_stage_with_a_command(command: str | None) -> None:
    """Without a command, wfctl has nothing from which it could build the submission."""
    stage = {
        "id": "stage-1",
        "name": "Build",
        "parameters": {"command": command} if command else {},
    }
    state = s.given(
        *s.through("stage-1", Status.FAILED), plan={"workflow_id": "w", "stages": [stage]}
    )
    again = p.StageRetried(stage="stage-1", fix="x", regenerate=True)
    if command is None:
        with pytest.raises(NothingToBuildFrom):
            decide(state, again, s.AT)
    else:
        assert decide(state, again, s.AT) == [again.model_copy(update={"retry": 1})]
    plain = p.StageRetried(stage="stage-1", fix="x")
    assert decide(state, plain, s.AT) == [plain.model_copy(update={"retry": 1})]


def test_only_a_person_keeps_finished_tasks_with_changed_inputs() -> None:
    """The decision needs a proof of consent."""
    state = s.given(*s.through("stage-1", Status.FAILED))
    command = p.StageRetried(stage="stage-1", fix="x", failed_only=True)
    with pytest.raises(NeedsConsent, match="wfctl stage retry stage-1 --fix TEXT --failed-only"):
        decide(state, command, s.AT)
    proved = command.model_copy(update={"proof": {"policy": "trust"}})
    assert decide(state, proved, s.AT) == [proved.model_copy(update={"retry": 1})]


@pytest.mark.parametrize(("stage", "is_refused"), [("stage-1", True), ("stage-2", False)])
def test_stage_is_not_retried_while_its_definition_is_edited_by_hand(
    stage: str, is_refused: bool
) -> None:
    """The error lists the edited fields of the stage. Edits of other stages do not matter."""
    edit = p.DriftDetected(
        file="workflow-state.json",
        kept_as=".wfctl/drift/workflow-state.json.v9",
        differences=[{"stage": stage, "path": ["parameters", "dt"]}],
    )
    state = s.recorded(s.given(*s.through("stage-1", Status.FAILED)), edit)
    assert [drift.touches for drift in state.drifts] == [[f"{stage}.parameters.dt"]]
    command = p.StageRetried(stage="stage-1", fix="x")
    if not is_refused:
        assert s.types(decide(state, command, s.AT)) == ["stage.retried"]
        return
    with pytest.raises(NeedsConsent) as refusal:
        decide(state, command, s.AT)
    assert refusal.value.data == {"stage": "stage-1", "fields": ["stage-1.parameters.dt"]}


def test_output_outside_of_the_root_is_refused() -> None:
    """The error lists each such path."""
    paths = ["../x", "stage-1/a.txt", "/y"]
    with pytest.raises(InvalidPayload) as refusal:
        decide(s.given(), p.OutputsRecorded(stage="stage-1", outputs=paths), s.AT)
    assert refusal.value.data["problems"] == [
        "outputs: expected a path below the root, found '../x'",
        "outputs: expected a path below the root, found '/y'",
    ]


def test_declared_outputs_cannot_be_dropped() -> None:
    """A new list must contain them, and detected files cannot replace them."""
    stage = {"id": "stage-1", "name": "Build", "outputs": ["stage-1/a", "stage-1/b"]}
    state = s.given(plan={"workflow_id": "w", "stages": [stage]})
    complete = p.OutputsRecorded(stage="stage-1", outputs=["stage-1/a", "stage-1/b", "stage-1/c"])
    assert decide(state, complete, s.AT) == [complete]
    cases = [
        (p.OutputsRecorded(stage="stage-1", outputs=["stage-1/b"]), ["stage-1/a"]),
        (complete.model_copy(update={"found": True}), ["stage-1/a", "stage-1/b"]),
    ]
    for command, dropped in cases:
        with pytest.raises(NeedsConsent) as refusal:
            decide(state, command, s.AT)
        expected = {"stage": "stage-1", "fields": ["outputs"], "dropped": dropped}
        assert refusal.value.data == expected


def test_detected_files_are_outputs_of_a_stage_without_declared_outputs() -> None:
    """A later list replaces an earlier one."""
    first = p.OutputsRecorded(stage="stage-1", outputs=["stage-1/a"], found=True)
    second = first.model_copy(update={"outputs": ["stage-1/b"]})
    assert decide(s.given(first), second, s.AT) == [second]


def build_file_digest(path: str, digest: str = "0") -> p.FileDigest:
    """Return a result with a digest of equal digits."""
    return p.FileDigest(path=path, size=1, sha256=digest * 64)


#: The stage was completed with two results.
WITH_RESULTS = s.given(
    *s.through("stage-1", Status.POST_PROCESSING),
    p.StageCompleted(
        stage="stage-1", evidence="seen", outputs=[build_file_digest("a"), build_file_digest("b")]
    ),
)


def build_adoption(**more: Any) -> p.ResultsAdopted:
    """Return the command of a person who accepts changed results of stage-1."""
    known: dict[str, Any] = {
        "outputs": [],
        "reason": "because",
        "proof": {"policy": "trust"},
        **more,
    }
    return p.ResultsAdopted(stage="stage-1", **known)


@pytest.mark.parametrize(
    "files",
    [{"outputs": [build_file_digest("a", "1")]}, {"deleted": [build_file_digest("b")]}],
    ids=["new", "deleted"],
)
def test_person_accepts_changed_or_deleted_results(files: dict[str, Any]) -> None:
    """The event has the grounds of the result, and it needs a proof of consent."""
    grounds = build_result_grounds(WITH_RESULTS, WITH_RESULTS.stage("stage-1"))
    command = build_adoption(**files)
    expected = [command.model_copy(update={"rests_on": grounds})]
    assert decide(WITH_RESULTS, command, s.AT) == expected
    with pytest.raises(NeedsConsent, match="wfctl verify stage-1 --adopt --reason TEXT"):
        decide(WITH_RESULTS, build_adoption(**files, proof={}), s.AT)


def test_acceptance_of_no_file_records_nothing() -> None:
    """Without files, no proof of consent is needed either."""
    assert decide(WITH_RESULTS, build_adoption(proof={}), s.AT) == []


def test_deleted_result_must_have_its_recorded_digest() -> None:
    """The error lists the results with another digest."""
    command = build_adoption(deleted=[build_file_digest("a"), build_file_digest("b", "1")])
    with pytest.raises(MissingEvidence, match="b has another digest") as refusal:
        decide(WITH_RESULTS, command, s.AT)
    assert refusal.value.data == {"stage": "stage-1", "strange": ["b"]}


@pytest.mark.parametrize(
    "files",
    [
        {"outputs": [build_file_digest("a"), build_file_digest("c")]},
        {"deleted": [build_file_digest("c")]},
    ],
)
def test_only_results_of_the_stage_are_accepted(files: dict[str, Any]) -> None:
    """The error lists the files that are no results."""
    with pytest.raises(MissingEvidence, match=r"the stage stage-1 has no result c\.") as refusal:
        decide(WITH_RESULTS, build_adoption(**files), s.AT)
    assert refusal.value.data == {"stage": "stage-1", "strange": ["c"]}


def test_changed_results_are_recorded_only_if_they_are_new() -> None:
    """The same list of changed results is not recorded again."""
    command = p.ResultsChanged(stage="stage-1", files=[p.ChangedFile(path="a", kind="missing")])
    none = command.model_copy(update={"files": []})
    assert decide(WITH_RESULTS, none, s.AT) == []
    assert decide(WITH_RESULTS, command, s.AT) == [command]
    changed = s.recorded(WITH_RESULTS, command)
    assert decide(changed, command, s.AT) == []
    assert decide(changed, none, s.AT) == [none]


def test_unfinished_stage_has_no_results() -> None:
    """The error has the status of the stage, even if the command names no file."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    why = "the stage stage-1 is running, but only a completed stage has results"
    for command in (build_adoption(), p.ResultsChanged(stage="stage-1", files=[])):
        with pytest.raises(MissingEvidence, match=why):
            decide(state, command, s.AT)


@pytest.mark.parametrize(
    ("command", "target", "kind"),
    [
        (p.StageSkipped(stage="stage-1", amendment="amend-1"), "skipped", "stage_skip"),
        (p.StageInvalidated(stage="stage-1", amendment="amend-1"), "invalidated", "stage_rerun"),
    ],
    ids=["skip", "rerun"],
)
def test_person_decides_about_the_skip_and_the_rerun_of_a_stage(
    command: p.Payload, target: str, kind: str
) -> None:
    """The error has the type of the amendment to propose."""
    with pytest.raises(NeedsConsent, match=f"an amendment of the type {kind}") as refusal:
        decide(WITH_RESULTS, command, s.AT)
    expected = {"stage": "stage-1", "status": "completed", "target": target}
    assert refusal.value.data == expected


def test_checkpoint_is_recorded_unchanged() -> None:
    """The command is the only event."""
    command = p.CheckpointRecorded(stage="stage-1", checkpoint={"step": 5})
    assert decide(s.given(*s.through("stage-1", Status.RUNNING)), command, s.AT) == [command]
