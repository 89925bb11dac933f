"""The rules of stages and their attempts."""

from __future__ import annotations

from typing import Any

from lifecycle import payload as p
from lifecycle.errors import (
    AttemptMismatch,
    DependenciesNotMet,
    IllegalTransition,
    MissingEvidence,
    NeedsConsent,
    NothingToBuildFrom,
    RetryLimitReached,
)
from lifecycle.payload import Payload
from lifecycle.retry import RECOVERY_LIMIT, retry_limit
from lifecycle.status import Status, targets, transition
from lifecycle.workflow import Attempt, Stage, Workflow

Decision = list[Payload]


def _may_become(stage: Stage, target: Status, event: str) -> None:
    """Raise `IllegalTransition` unless the table lets ``event`` take the stage to ``target``."""
    row = transition(stage.status, target)
    if row is None or event not in row.events:
        raise IllegalTransition(
            stage.id,
            stage.status.value,
            target.value,
            "not in the transition table" if row is None else f"not by {event}",
            targets(stage.status),
        )


def _met(state: Workflow, stage: Stage) -> None:
    waiting_for = state.unmet(stage)
    if waiting_for:
        raise DependenciesNotMet(stage.id, waiting_for)


def ready(state: Workflow, command: p.StageReadied) -> Decision:
    """pending or invalidated → ready, once every dependency is completed."""
    stage = state.stage(command.stage)
    if stage.status is Status.FAILED:
        raise IllegalTransition(
            stage.id, "failed", "ready", "a retry or an approved stage_rerun", targets(stage.status)
        )
    _may_become(stage, Status.READY, command.type)
    _met(state, stage)
    return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]


def prepare(state: Workflow, command: p.StagePrepared) -> Decision:
    """ready → preparing."""
    stage = state.stage(command.stage)
    _may_become(stage, Status.PREPARING, command.type)
    _met(state, stage)
    return [command]


def start_attempt(state: Workflow, command: p.AttemptStarted) -> Decision:
    """A new attempt of a stage that is ready or preparing, or in place of one that was lost."""
    stage = state.stage(command.stage)
    _no_amendment_pending(state, stage)
    prepared: Decision = []
    if command.recovers is not None:
        _may_recover(stage, command.recovers)
    elif command.diagnostic:
        prepared = _diagnostic(state, stage)
    elif stage.status is Status.READY:
        prepared = prepare(
            state, p.StagePrepared(stage=stage.id, detail=f"{command.mode} dispatch")
        )
    elif stage.status is not Status.PREPARING or stage.open_attempt is not None:
        newest = stage.open_attempt
        why = f"no attempt can start while it is {stage.status}"
        raise AttemptMismatch(stage.id, newest.id if newest else None, None, why)
    _met(state, stage)
    known: dict[str, Any] = {"attempt": f"att-{len(stage.attempts) + 1:04d}"}
    if command.recovers is not None:
        # What takes the place of a diagnostic run is one, and nothing else is.
        known["diagnostic"] = stage.attempts[-1].diagnostic
    return [*prepared, command.model_copy(update=known)]


def _diagnostic(state: Workflow, stage: Stage) -> Decision:
    """A diagnostic run follows a failure, and counts as a retry."""
    fix = "none yet: a diagnostic run, for log and err alone"
    retried = retry(state, p.StageRetried(stage=stage.id, fix=fix))
    return [*retried, p.StagePrepared(stage=stage.id, detail="diagnostic run")]


def _no_amendment_pending(state: Workflow, stage: Stage) -> None:
    waiting = [amendment.id for amendment in state.pending_amendments]
    if waiting:
        raise NeedsConsent(
            f"{stage.id} is not dispatched while {', '.join(waiting)} waits for a decision: "
            "approve or reject it first.",
            stage=stage.id,
            amendments=waiting,
        )


def _may_recover(stage: Stage, lost: str) -> None:
    attempt = stage.open_attempt
    if attempt is None or attempt.id != lost or stage.status is Status.POST_PROCESSING:
        raise AttemptMismatch(
            stage.id, attempt.id if attempt else None, lost, "not to be recovered"
        )
    if attempt.action != "lost":
        raise AttemptMismatch(
            stage.id, attempt.id, lost, f"it was observed as {attempt.verdict}, not as lost"
        )
    if _recoveries(stage) >= RECOVERY_LIMIT:
        raise AttemptMismatch(stage.id, attempt.id, lost, "lost twice; it counts as failed")


def _recoveries(stage: Stage) -> int:
    """Count the recoveries in the unbroken run of recovered attempts at the end."""
    count = 0
    for attempt in reversed(stage.attempts):
        if attempt.recovers is None:
            return count
        count += 1
    return count


def can_recover(stage: Stage) -> bool:
    """Whether a lost attempt of the stage may be replaced by a new one, not counted as a retry."""
    return _recoveries(stage) < RECOVERY_LIMIT


def _under_way(stage: Stage, named: str | None) -> Attempt:
    attempt = stage.open_attempt
    if attempt is None or (named is not None and attempt.id != named):
        newest = attempt.id if attempt else None
        raise AttemptMismatch(stage.id, newest, named, "that attempt is not under way")
    return attempt


def launch(state: Workflow, command: p.StageLaunched) -> Decision:
    """preparing → running; a synchronous attempt, and one of a running stage, keep the status.

    One that was launched before is recorded again where its jobs are others since.
    """
    stage = state.stage(command.stage)
    if stage.status is not Status.RUNNING:
        _may_become(stage, Status.RUNNING, command.type)
    attempt = _under_way(stage, command.attempt)
    if command.mode == "sync" != attempt.mode:
        raise _not_launched(stage, f"{attempt.id} is {attempt.mode}, not synchronous")
    again = attempt.launched_at is not None
    if again and command.job_ids in ([], attempt.job_ids):
        raise _not_launched(stage, f"{attempt.id} is recorded as launched, with these jobs")
    return [command.model_copy(update={"again": again})]


def _not_launched(stage: Stage, why: str) -> IllegalTransition:
    status = stage.status.value
    return IllegalTransition(stage.id, status, Status.RUNNING.value, why, targets(stage.status))


def compute(state: Workflow, command: p.StageComputed) -> Decision:
    """running → post_processing, or preparing → post_processing for a synchronous attempt."""
    stage = state.stage(command.stage)
    _may_become(stage, Status.POST_PROCESSING, command.type)
    attempt = _under_way(stage, command.attempt)
    if attempt.diagnostic:
        raise IllegalTransition(
            stage.id,
            stage.status.value,
            Status.POST_PROCESSING.value,
            f"{attempt.id} is a diagnostic run, which ends in failed whatever its exit code",
            ["failed"],
        )
    if stage.status is Status.PREPARING and attempt.mode != "sync":
        raise IllegalTransition(
            stage.id,
            stage.status.value,
            Status.POST_PROCESSING.value,
            f"only a synchronous attempt passes over running, {attempt.id} is {attempt.mode}",
            targets(stage.status),
        )
    if command.exit_code != 0:
        raise MissingEvidence(
            f"{stage.id}: post_processing follows exit code 0, found {command.exit_code}; "
            "record stage.failed with the reason instead.",
            stage=stage.id,
            exit_code=command.exit_code,
        )
    return [command]


def complete(state: Workflow, command: p.StageCompleted) -> Decision:
    """post_processing → completed, on checks that all passed or on evidence that is given."""
    stage = state.stage(command.stage)
    _may_become(stage, Status.COMPLETED, command.type)
    _up_to_date(stage)
    broken = [check for check in command.checks if not check.passed]
    if broken or not (command.checks or command.evidence):
        names = "; ".join(f"{check.name}: {check.detail}" for check in broken)
        found = f"checks that failed: {names}" if broken else "neither"
        raise MissingEvidence(
            f"{stage.id}: completed means verified against its success criteria; expected checks "
            f"that passed or evidence, found {found}.",
            stage=stage.id,
            failed_checks=[check.name for check in broken],
        )
    return [command]


def _up_to_date(stage: Stage) -> None:
    """Refuse a result that was computed from what an amendment has changed since."""
    attempt = stage.attempt
    if attempt is not None and attempt.outdated_by is not None:
        raise MissingEvidence(
            f"{stage.id}: {attempt.id} was started before {attempt.outdated_by} changed what it "
            f'computes from; record `wfctl stage fail {stage.id} --error "…"` and run it again.',
            stage=stage.id,
            attempt=attempt.id,
            amendment=attempt.outdated_by,
        )


def fail(state: Workflow, command: p.StageFailed) -> Decision:
    """preparing, running or post_processing → failed."""
    stage = state.stage(command.stage)
    _may_become(stage, Status.FAILED, command.type)
    if command.superseded_by is not None:
        raise NeedsConsent(
            f"{stage.id} is superseded only by an amendment that a person approved.", stage=stage.id
        )
    if command.attempt is not None and stage.status is not Status.POST_PROCESSING:
        _under_way(stage, command.attempt)
    # What is over needs no stopping.
    return [command.model_copy(update={"stop": command.stop and stage.open_attempt is not None})]


def retry(state: Workflow, command: p.StageRetried) -> Decision:
    """failed → ready, counted, as long as the backend's limit is not reached.

    A fix that changed what only an amendment may change waits for that amendment.
    """
    stage = state.stage(command.stage)
    _may_become(stage, Status.READY, command.type)
    kind = state.backend_type(stage)
    limit = retry_limit(kind)
    if stage.retry_count >= limit:
        raise RetryLimitReached(stage.id, stage.retry_count, limit, kind)
    _met(state, stage)
    _not_by_hand(state, stage)
    if command.regenerate and not stage.parameters.get("command"):
        raise NothingToBuildFrom(stage.id)
    return [command.model_copy(update={"retry": stage.retry_count + 1})]


def _not_by_hand(state: Workflow, stage: Stage) -> None:
    """Raise `NeedsConsent` where somebody edited the stage's definition in the file."""
    named = [name for drift in state.drifts for name in drift.touches]
    own = [name for name in named if name.startswith(f"{stage.id}.")]
    if own:
        raise NeedsConsent(
            f"{stage.id}: {', '.join(own)} was changed by hand, and a fix that changes it is an "
            "amendment. `wfctl drift adopt` proposes it, `wfctl drift revert` dismisses it; then "
            "retry.",
            stage=stage.id,
            fields=own,
        )


def observe(state: Workflow, command: p.AttemptObserved) -> Decision:
    """Record a verdict, unless it says what the newest one said."""
    stage = state.stage(command.stage)
    attempt = _under_way(stage, command.attempt)
    same = (attempt.verdict, attempt.row, attempt.reason)
    if same == (command.verdict, command.row, command.reason):
        return []
    return [command]


def relaunch(state: Workflow, command: p.AttemptRelaunched) -> Decision:
    """Attach a monitor to the attempt under way again."""
    _under_way(state.stage(command.stage), command.attempt)
    return [command]


def stop(state: Workflow, command: p.AttemptStopped) -> Decision:
    """Record that nothing is left of an attempt that is over; said once."""
    stage = state.stage(command.stage)
    attempt = next((one for one in stage.attempts if one.id == command.attempt), None)
    if attempt is None or attempt.is_open:
        under_way = stage.open_attempt.id if stage.open_attempt else None
        why = "only an attempt that is over is stopped; record its failure first"
        raise AttemptMismatch(stage.id, under_way, command.attempt, why)
    return [] if attempt.stopped_at is not None else [command]


def record_outputs(state: Workflow, command: p.OutputsRecorded) -> Decision:
    """Set the stage's list of outputs."""
    state.stage(command.stage)
    return [command]


def record_checkpoint(state: Workflow, command: p.CheckpointRecorded) -> Decision:
    """Set the stage's checkpoint."""
    state.stage(command.stage)
    return [command]
