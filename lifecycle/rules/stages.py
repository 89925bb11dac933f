"""The rules for events of stages and their attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.errors import (
    AttemptMismatch,
    DependenciesNotMet,
    IllegalTransition,
    InvalidPayload,
    MissingEvidence,
    NeedsConsent,
    NothingToBuildFrom,
    RetryLimitReached,
    build_needs_consent_error,
)
from lifecycle.payload import models as p
from lifecycle.rules.grounds import build_result_grounds
from lifecycle.state.basis import find_reusable_attempts
from lifecycle.state.status import RECOVERY_LIMIT, Status, retry_limit, targets, transition
from lifecycle.state.workflow import Attempt, Stage, Workflow, is_below
from lifecycle.words.failure_cause import get_cause_and_full_text
from lifecycle.words.values import is_base_folder_or_inside, is_placeholder

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def _require_transition(stage: Stage, target: Status, event: str) -> None:
    """Raise `IllegalTransition` unless an ``event`` may change the stage's status to ``target``."""
    row = transition(stage.status, target)
    if row is None or event not in row.events:
        raise _illegal_transition(
            stage, target, f"not by {event}" if row else "not in the transition table"
        )


def _illegal_transition(stage: Stage, target: Status, why: str) -> IllegalTransition:
    """Return the error for a change of status that is not allowed."""
    now = stage.status
    return IllegalTransition(stage.id, now.value, target.value, why, targets(now))


def _attempt_mismatch(
    stage: Stage, expected: Attempt | None, named: str | None, why: str
) -> AttemptMismatch:
    """Return the error for a command that names the wrong attempt."""
    return AttemptMismatch(stage.id, expected.id if expected else None, named, why)


def _require_dependencies(state: Workflow, stage: Stage) -> None:
    """Raise `DependenciesNotMet` unless all dependencies are completed."""
    waiting_for = state.unmet_dependencies(stage)
    if waiting_for:
        raise DependenciesNotMet(stage.id, waiting_for)


def _require_no_placeholder(stage: str, name: str, text: str | None) -> None:
    """Raise `MissingEvidence` if a text is only a placeholder, such as TEXT.

    A placeholder would be useless in the log, and it could not be removed later.
    """
    if text is not None and is_placeholder(text):
        raise MissingEvidence(
            f"the {name} of the stage {stage} is {text!r}, which is only a placeholder. Describe "
            "in a sentence what happened.",
            stage=stage,
            field=name,
        )


def _decide_ready(state: Workflow, stage: Stage, command: p.StageReadied) -> Decision:
    """Return the event by which a pending or invalidated stage becomes ready.

    Raises `DependenciesNotMet` unless all dependencies are completed.
    """
    if stage.status is Status.FAILED:
        raise _illegal_transition(stage, Status.READY, "a retry or an approved stage_rerun")
    _require_transition(stage, Status.READY, command.type)
    _require_dependencies(state, stage)
    return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]


def _decide_prepare(state: Workflow, stage: Stage, command: p.StagePrepared) -> Decision:
    """Return the event that starts the preparation of a ready stage.

    Raises an error unless a person has approved the plan and all dependencies are completed.
    """
    require_agreed_plan(state, f"{stage.id} is not prepared", stage.id)
    _require_transition(stage, Status.PREPARING, command.type)
    _require_dependencies(state, stage)
    return [command]


def _decide_attempt_start(state: Workflow, stage: Stage, command: p.AttemptStarted) -> Decision:
    """Return the events that start an attempt of a stage.

    The stage must be ready or preparing, or the attempt must replace a lost attempt.
    """
    _require_no_pending_amendment(state, stage)
    prepared: Decision = []
    if command.recovers is not None:
        _require_replaceable_attempt(stage, command.recovers)
    elif command.diagnostic:
        # A diagnostic run of a failed stage counts as a retry.
        fix = "none: the attempt is a diagnostic run, which only produces log and err"
        retried = _decide_retry(state, stage, p.StageRetried(stage=stage.id, fix=fix))
        prepared = [*retried, p.StagePrepared(stage=stage.id, detail="diagnostic run")]
    elif stage.status is Status.READY:
        detail = f"{command.mode} dispatch"
        prepared = _decide_prepare(state, stage, p.StagePrepared(stage=stage.id, detail=detail))
    elif stage.status is not Status.PREPARING or stage.open_attempt is not None:
        why = f"no attempt can start while the stage is {stage.status}"
        raise _attempt_mismatch(stage, stage.open_attempt, None, why)
    _require_dependencies(state, stage)
    known: dict[str, Any] = {"attempt": f"att-{len(stage.attempts) + 1:04d}"}
    if command.recovers is not None:
        # An attempt that recovers a lost diagnostic run is a diagnostic run itself.
        known["diagnostic"] = stage.attempts[-1].diagnostic
    return [*prepared, command.model_copy(update=known)]


def _require_no_pending_amendment(state: Workflow, stage: Stage) -> None:
    """Raise `NeedsConsent` while the plan or an amendment waits for a person's decision."""
    require_agreed_plan(state, f"{stage.id} is not dispatched", stage.id)
    waiting = [amendment.id for amendment in state.pending_amendments]
    if waiting:
        raise NeedsConsent(
            f"the stage {stage.id} is not dispatched while {', '.join(waiting)} waits for a "
            "decision. Approve or reject the change first.",
            stage=stage.id,
            amendments=waiting,
        )


def require_agreed_plan(state: Workflow, refused: str, stage: str | None = None) -> None:
    """Raise `NeedsConsent` while the plan waits for a person's approval.

    Call this function before running any script or command of the plan. ``refused`` is the first
    clause of the error message.
    """
    if state.plan is not None and state.plan.is_open:
        waiting = [amendment.id for amendment in state.pending_amendments]
        named = {} if stage is None else {"stage": stage}
        raise NeedsConsent(
            f"{refused}, because no person has approved the plan yet. To show the plan, run "
            "`wfctl amend show plan`. To approve the plan, a person must run `wfctl amend "
            "approve plan` at a terminal.",
            **named,
            amendments=waiting,
        )


def _require_replaceable_attempt(stage: Stage, lost: str) -> None:
    """Raise `AttemptMismatch` unless the attempt was lost and may be replaced by a new one."""
    attempt = stage.open_attempt
    if attempt is None or attempt.id != lost or stage.status is Status.POST_PROCESSING:
        raise _attempt_mismatch(stage, attempt, lost, "not to be recovered")
    if attempt.action == "continue":  # it computed the first tasks of a sweep
        return
    if attempt.action != "lost":
        why = f"wfctl observed the attempt as {attempt.verdict}, not as lost"
        raise _attempt_mismatch(stage, attempt, lost, why)
    if not can_replace_lost_attempt(stage):
        raise _attempt_mismatch(
            stage, attempt, lost, "the attempt was lost twice, so it is treated as failed"
        )


def can_replace_lost_attempt(stage: Stage) -> bool:
    """Return whether a new attempt may replace a lost attempt without counting as a retry.

    The number of such attempts in a row is limited.
    """
    # Count the newest attempts that replaced a lost one. An attempt of a sweep in which a task
    # ended made progress and is not counted.
    recovered = takewhile(
        lambda one: one.recovers is not None and not (one.tasks or {}).get("ended"),
        reversed(stage.attempts),
    )
    return len(list(recovered)) < RECOVERY_LIMIT


def _get_open_attempt(stage: Stage, named: str) -> Attempt:
    """Return the running attempt of the stage.

    Raises `AttemptMismatch` if no attempt is running or the command names another one.
    """
    attempt = stage.open_attempt
    if attempt is None or attempt.id != named:
        raise _attempt_mismatch(stage, attempt, named, "the named attempt is not running")
    return attempt


def _get_attempt(stage: Stage, named: str) -> Attempt:
    """Return the attempt with the given id. Raises `AttemptMismatch` if it does not exist."""
    found = next((one for one in stage.attempts if one.id == named), None)
    if found is None:
        raise _attempt_mismatch(stage, stage.attempt, named, "the stage has no attempt of this id")
    return found


def _decide_launch(state: Workflow, stage: Stage, command: p.StageLaunched) -> Decision:
    """Return the event that the jobs of an attempt were launched.

    The stage becomes running, except for a synchronous attempt. A repeated launch is recorded only
    if its jobs changed; otherwise `IllegalTransition` is raised.
    """
    if stage.status is not Status.RUNNING:
        _require_transition(stage, Status.RUNNING, command.type)
    attempt = _get_open_attempt(stage, command.attempt)
    if (command.mode == "sync") != (attempt.mode == "sync"):
        why = f"{attempt.id} was started in the mode {attempt.mode}, not {command.mode}"
        raise _illegal_transition(stage, Status.RUNNING, why)
    again = attempt.launched_at is not None
    if again and command.job_ids in ([], attempt.job_ids):
        why = f"the launch of {attempt.id} with these jobs is already recorded"
        raise _illegal_transition(stage, Status.RUNNING, why)
    return [command.model_copy(update={"again": again})]


def _decide_reuse(state: Workflow, stage: Stage, command: p.OutputsReused) -> Decision:
    """Return the events by which a ready stage reuses the outputs of an earlier attempt.

    The earlier attempt must have the same definition, outputs and inputs. Otherwise
    `AttemptMismatch` is raised.
    """
    _require_no_pending_amendment(state, stage)
    detail = f"reuse of {command.attempt}"
    prepared = _decide_prepare(state, stage, p.StagePrepared(stage=stage.id, detail=detail))
    source = next(
        (one for one in find_reusable_attempts(state, stage) if one.id == command.attempt), None
    )
    if source is None:
        why = "no successful attempt of that id with the current definition"
        raise _attempt_mismatch(stage, stage.attempt, command.attempt, why)
    said = command.as_json()
    for name, known in (("outputs", source.results), ("inputs", source.inputs)):
        if said[name] != known:
            why = f"the attempt used other {name}"
            raise _attempt_mismatch(stage, stage.attempt, command.attempt, why)
    return [*prepared, command]


def _decide_compute(state: Workflow, stage: Stage, command: p.StageComputed) -> Decision:
    """Return the events by which a stage changes to post_processing after its computation.

    Raises an error if the computation failed or the attempt is a diagnostic run.
    """
    _require_transition(stage, Status.POST_PROCESSING, command.type)
    attempt = _get_open_attempt(stage, command.attempt)
    if attempt.diagnostic:
        why = f"{attempt.id} is a diagnostic run, which always ends as failed"
        now, target = stage.status.value, Status.POST_PROCESSING.value
        raise IllegalTransition(stage.id, now, target, why, ["failed"])
    if stage.status is Status.PREPARING and attempt.mode != "sync":
        why = f"only a synchronous attempt passes over running, {attempt.id} is {attempt.mode}"
        raise _illegal_transition(stage, Status.POST_PROCESSING, why)
    if command.exit_code != 0:
        raise MissingEvidence(
            f"the command of the stage {stage.id} ended with exit code {command.exit_code}, so "
            "the stage cannot continue to post_processing. Record the failure with `wfctl stage "
            "fail` instead.",
            stage=stage.id,
            exit_code=command.exit_code,
        )
    if attempt.action == "failed":
        raise MissingEvidence(
            f"wfctl observed that the attempt {attempt.id} of the stage {stage.id} failed "
            f"({attempt.reason}). Record the failure with `wfctl stage fail`, or check the "
            "attempt again with `wfctl reconcile`.",
            stage=stage.id,
            attempt=attempt.id,
        )
    found = _find_undeclared_outputs(stage, attempt)
    recorded = p.OutputsRecorded(stage=stage.id, outputs=found, found=True)
    return [command, recorded] if found else [command]


def _find_undeclared_outputs(stage: Stage, attempt: Attempt) -> list[str]:
    """Return the files that an attempt wrote, for a stage whose plan declares no outputs.

    The file ``log`` is included only if the attempt wrote no other file.
    """
    if stage.declared_outputs:
        return []
    here = [one for one in attempt.left if one.get("at") is None and one["size"]]
    left = [one["path"] for one in here if is_below(one["path"], stage.id)]
    log = f"{stage.id}/log"
    written = [path for path in left if path not in (log, f"{stage.id}/err")]
    return written or [path for path in left if path == log]


def _decide_complete(state: Workflow, stage: Stage, command: p.StageCompleted) -> Decision:
    """Return the event by which a stage in post_processing becomes completed.

    Raises `MissingEvidence` if a check failed, or if neither checks nor evidence are given.
    """
    _require_transition(stage, Status.COMPLETED, command.type)
    _require_current_definition(stage)
    _require_no_placeholder(stage.id, "evidence", command.evidence)
    broken = [check for check in command.checks if not check.passed]
    if broken or not (command.checks or command.evidence):
        names = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        found = f"These checks failed: {names}" if broken else "No check or evidence was given"
        raise MissingEvidence(
            f"the stage {stage.id} can be completed only after its success criteria were checked. "
            f"{found}.",
            stage=stage.id,
            failed_checks=[check.name for check in broken],
        )
    return [command.model_copy(update={"rests_on": build_result_grounds(state, stage)})]


def _require_current_definition(stage: Stage) -> None:
    """Raise `MissingEvidence` if an amendment changed the stage after its attempt started."""
    attempt = stage.attempt
    if attempt is not None and attempt.outdated_by is not None and stage.reused is None:
        raise MissingEvidence(
            f"the attempt {attempt.id} of the stage {stage.id} was started before "
            f"{attempt.outdated_by} changed the definition of the stage. Run `wfctl stage fail "
            f"{stage.id} --error TEXT`, then run the stage again.",
            stage=stage.id,
            attempt=attempt.id,
            amendment=attempt.outdated_by,
        )


def _decide_fail(state: Workflow, stage: Stage, command: p.StageFailed) -> Decision:
    """Return the event by which a preparing, running or post_processing stage becomes failed."""
    _require_transition(stage, Status.FAILED, command.type)
    _require_no_placeholder(stage.id, "error", command.error)
    if command.superseded_by is not None:
        raise NeedsConsent(
            f"only an amendment that a person approved can stop the stage {stage.id} in this way.",
            stage=stage.id,
        )
    if command.attempt is not None and stage.status is not Status.POST_PROCESSING:
        _get_open_attempt(stage, command.attempt)
    error, output = get_cause_and_full_text(command.error)
    said = {"error": error, "output": command.output or output}
    # Only an open attempt has processes and jobs that must be stopped.
    stops = command.stop and stage.open_attempt is not None
    return [command.model_copy(update={**said, "stop": stops})]


def _decide_retry(state: Workflow, stage: Stage, command: p.StageRetried) -> Decision:
    """Return the event that makes a failed stage ready for its next retry.

    Raises `RetryLimitReached` if all retries are used. Raises `NeedsConsent` if the stage was
    edited by hand in a way that needs an amendment.
    """
    _require_transition(stage, Status.READY, command.type)
    _require_no_placeholder(stage.id, "fix", command.fix)
    kind = state.backend_type(stage)
    limit = retry_limit(kind)
    if stage.retry_count >= limit:
        raise RetryLimitReached(stage.id, stage.retry_count, limit, kind)
    _require_dependencies(state, stage)
    _require_no_manual_edit(state, stage)
    if command.regenerate and not stage.parameters.get("command"):
        raise NothingToBuildFrom(stage.id)
    if command.failed_only and not command.proof:
        way = f"wfctl stage retry {stage.id} --fix TEXT --failed-only"
        raise build_needs_consent_error(command.type, way)
    return [command.model_copy(update={"retry": stage.retry_count + 1})]


def _require_no_manual_edit(state: Workflow, stage: Stage) -> None:
    """Raise `NeedsConsent` if somebody edited the stage's definition in a generated file."""
    named = [name for drift in state.drifts for name in drift.touches]
    own = [name for name in named if name.startswith(f"{stage.id}.")]
    if own:
        raise NeedsConsent(
            f"{', '.join(own)} was changed by hand, and only an amendment can make this change. "
            "To propose the change, run `wfctl drift adopt`. To discard the change, run `wfctl "
            "drift revert`. Then try again.",
            stage=stage.id,
            fields=own,
        )


def _decide_observation(state: Workflow, stage: Stage, command: p.AttemptObserved) -> Decision:
    """Return the event with a verdict on an attempt.

    Return an empty list if the verdict equals the previous one.
    """
    attempt = _get_open_attempt(stage, command.attempt)
    known = attempt.waiting["reason"] if attempt.waiting else None
    same = (attempt.verdict, attempt.row, attempt.action, attempt.reason, known)
    if same == (command.verdict, command.row, command.action, command.reason, command.waiting):
        return []
    return [command]


def _decide_relaunch(state: Workflow, stage: Stage, command: p.AttemptRelaunched) -> Decision:
    """Return the event that the monitor of the running attempt was started again."""
    _get_open_attempt(stage, command.attempt)
    return [command]


def _decide_overrule(state: Workflow, stage: Stage, command: p.ClaimOverruled) -> Decision:
    """Return the event of a person's decision against the evidence on the newest attempt.

    Raises `NeedsConsent` without a proof of consent.
    """
    if stage.attempt is None or command.attempt != stage.attempt.id:
        raise _attempt_mismatch(
            stage, stage.attempt, command.attempt, "the attempt is not the newest one"
        )
    if not command.proof:
        raise build_needs_consent_error(
            command.type, f"wfctl stage compute {stage.id} --overrule TEXT"
        )
    return [command]


def _decide_stop(state: Workflow, stage: Stage, command: p.AttemptStopped) -> Decision:
    """Return the event that no process of an ended attempt remains.

    Return an empty list if this is already recorded.
    """
    attempt = next((one for one in stage.attempts if one.id == command.attempt), None)
    if attempt is None or attempt.is_open:
        why = "only an ended attempt can be stopped; record its failure first"
        raise _attempt_mismatch(stage, stage.open_attempt, command.attempt, why)
    return [] if attempt.stopped_at is not None else [command]


def _decide_left_files(state: Workflow, stage: Stage, command: p.AttemptLeft) -> Decision:
    """Return the event that lists the files of an attempt in addition to its outputs.

    Return an empty list if these files are already recorded.
    """
    known = _get_attempt(stage, command.attempt)
    is_known = known.left == command.as_json()["files"]
    return [] if is_known and {*command.exchanged} <= {*known.exchanged} else [command]


def _decide_task_observation(state: Workflow, stage: Stage, command: p.TasksObserved) -> Decision:
    """Return the event with the states of a sweep's tasks, or an empty list without news."""
    known = command.model_dump(mode="json", exclude={"stage", "attempt"})
    return [] if _get_attempt(stage, command.attempt).tasks == known else [command]


def _decide_freed_leftovers(state: Workflow, stage: Stage, command: p.LeftoversFreed) -> Decision:
    """Return the event that leftover files of an attempt are deleted.

    Raises `AttemptMismatch` unless the stage is completed with the results of a later attempt.
    """
    earlier = [one.id for one in stage.attempts[:-1] if one is not stage.source]
    if stage.status is not Status.COMPLETED or command.attempt not in earlier:
        why = (
            "leftover files can be deleted only for attempts before the one whose results a "
            "completed stage uses"
        )
        raise _attempt_mismatch(stage, stage.attempt, command.attempt, why)
    return [command]


def _decide_outputs(state: Workflow, stage: Stage, command: p.OutputsRecorded) -> Decision:
    """Return the event with the stage's new list of outputs.

    Raises `InvalidPayload` for a path outside the root. Raises `NeedsConsent` if a declared output
    is missing in the list: it would no longer be checked.
    """
    outside = [path for path in command.outputs if not is_base_folder_or_inside(path)]
    if outside:
        problems = [f"outputs: expected a path below the root, found {one!r}" for one in outside]
        raise InvalidPayload(command.type, problems)
    declared = stage.declared_outputs
    dropped = [path for path in declared if command.found or path not in command.outputs]
    if dropped:
        raise NeedsConsent(
            f"the stage {stage.id} must write {', '.join(dropped)}, but its recorded outputs are "
            f"{', '.join(command.outputs) or 'none'}. To require fewer outputs, propose the "
            f"change: `wfctl amend propose --stage {stage.id} --set 'outputs=[…]' --reason …`.",
            stage=stage.id,
            fields=["outputs"],
            dropped=dropped,
        )
    return [command]


def _decide_adoption(state: Workflow, stage: Stage, command: p.ResultsAdopted) -> Decision:
    """Return the event that a person accepts changed or deleted results of a completed stage.

    Raises `NeedsConsent` without a proof of consent, and `MissingEvidence` for files that are not
    results of the stage or deleted results whose digest differs from the log.
    """
    _require_results(stage, [one.path for one in (*command.outputs, *command.deleted)])
    strange = [one.path for one in command.deleted if one.model_dump() not in stage.results]
    if strange:
        raise MissingEvidence(
            f"a deleted result of the stage {stage.id} must have the digest that the log records, "
            f"but {', '.join(strange)} has another digest.",
            stage=stage.id,
            strange=strange,
        )
    if not (command.outputs or command.deleted):
        return []
    if not command.proof:
        raise build_needs_consent_error(
            command.type, f"wfctl verify {stage.id} --adopt --reason TEXT"
        )
    return [command.model_copy(update={"rests_on": build_result_grounds(state, stage)})]


def _decide_changed_results(state: Workflow, stage: Stage, command: p.ResultsChanged) -> Decision:
    """Return the event that lists the changed results of a completed stage.

    Return an empty list if these changes are already recorded.
    """
    _require_results(stage, [one.path for one in command.files])
    return [] if command.as_json()["files"] == stage.changed else [command]


def _require_results(stage: Stage, paths: list[str]) -> None:
    """Raise `MissingEvidence` unless the stage is completed and the paths are its results."""
    known = {one["path"] for one in stage.results}
    strange = [path for path in paths if path not in known]
    if stage.status is not Status.COMPLETED or strange:
        why = (
            f"has no result {', '.join(strange)}"
            if strange
            else f"is {stage.status.value}, but only a completed stage has results"
        )
        raise MissingEvidence(
            f"the stage {stage.id} {why}.",
            stage=stage.id,
            strange=strange,
        )


def _refuse_without_amendment(state: Workflow, stage: Stage, command: Payload) -> Decision:
    """Raise `NeedsConsent`, because only an approved amendment can skip or invalidate a stage."""
    is_skip = command.type == "stage.skipped"
    target = Status.SKIPPED if is_skip else Status.INVALIDATED
    if transition(stage.status, target) is None:
        raise _illegal_transition(stage, target, "not in the transition table")
    raise NeedsConsent(
        f"only a person can decide that the stage {stage.id} becomes {target.value}. Propose an "
        f"amendment of the type stage_{'skip' if is_skip else 'rerun'}.",
        stage=stage.id,
        status=stage.status.value,
        target=target.value,
    )


def _accept_unchanged(state: Workflow, stage: Stage, command: Payload) -> Decision:
    """Return the command as the only event."""
    return [command]


RULES: Mapping[str, Callable[[Workflow, Stage, Any], Decision]] = {
    "stage.readied": _decide_ready,
    "stage.prepared": _decide_prepare,
    "attempt.started": _decide_attempt_start,
    "stage.launched": _decide_launch,
    "stage.computed": _decide_compute,
    "claim.overruled": _decide_overrule,
    "stage.completed": _decide_complete,
    "stage.failed": _decide_fail,
    "stage.retried": _decide_retry,
    "stage.invalidated": _refuse_without_amendment,
    "stage.skipped": _refuse_without_amendment,
    "attempt.observed": _decide_observation,
    "attempt.relaunched": _decide_relaunch,
    "attempt.stopped": _decide_stop,
    "attempt.left": _decide_left_files,
    "tasks.observed": _decide_task_observation,
    "leftovers.freed": _decide_freed_leftovers,
    "outputs.recorded": _decide_outputs,
    "outputs.reused": _decide_reuse,
    "results.adopted": _decide_adoption,
    "results.changed": _decide_changed_results,
    "checkpoint.recorded": _accept_unchanged,
}
