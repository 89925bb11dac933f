"""The rules of stages and their attempts."""

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
    undecided,
)
from lifecycle.payload import models as p
from lifecycle.rules.impact import rests_on
from lifecycle.state.conditions import reusable
from lifecycle.state.status import RECOVERY_LIMIT, Status, retry_limit, targets, transition
from lifecycle.state.workflow import Attempt, Stage, Workflow, is_below
from lifecycle.words.values import in_one_line, is_placeholder, stays_below

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def _may_become(stage: Stage, target: Status, event: str) -> None:
    """Raise `IllegalTransition` unless the table lets ``event`` take the stage to ``target``."""
    row = transition(stage.status, target)
    if row is None or event not in row.events:
        raise _illegal(stage, target, f"not by {event}" if row else "not in the transition table")


def _illegal(stage: Stage, target: Status, why: str) -> IllegalTransition:
    now = stage.status
    return IllegalTransition(stage.id, now.value, target.value, why, targets(now))


def _mismatch(
    stage: Stage, expected: Attempt | None, named: str | None, why: str
) -> AttemptMismatch:
    return AttemptMismatch(stage.id, expected.id if expected else None, named, why)


def _met(state: Workflow, stage: Stage) -> None:
    waiting_for = state.unmet(stage)
    if waiting_for:
        raise DependenciesNotMet(stage.id, waiting_for)


def _says_something(stage: str, name: str, text: str | None) -> None:
    """Refuse what stands in an example for words of one's own: it would be kept for ever."""
    if text is not None and is_placeholder(text):
        raise MissingEvidence(
            f"{stage}: expected the {name} in words, found {text!r}; say what was so.",
            stage=stage,
            field=name,
        )


def _ready(state: Workflow, stage: Stage, command: p.StageReadied) -> Decision:
    """pending or invalidated → ready, once every dependency is completed."""
    if stage.status is Status.FAILED:
        raise _illegal(stage, Status.READY, "a retry or an approved stage_rerun")
    _may_become(stage, Status.READY, command.type)
    _met(state, stage)
    return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]


def _prepare(state: Workflow, stage: Stage, command: p.StagePrepared) -> Decision:
    """ready → preparing."""
    _may_become(stage, Status.PREPARING, command.type)
    _met(state, stage)
    return [command]


def _start_attempt(state: Workflow, stage: Stage, command: p.AttemptStarted) -> Decision:
    """A new attempt of a stage that is ready or preparing, or in place of one that was lost."""
    _no_amendment_pending(state, stage)
    prepared: Decision = []
    if command.recovers is not None:
        _may_recover(stage, command.recovers)
    elif command.diagnostic:
        # It follows a failure, and counts as a retry.
        fix = "none yet: a diagnostic run, for log and err alone"
        retried = _retry(state, stage, p.StageRetried(stage=stage.id, fix=fix))
        prepared = [*retried, p.StagePrepared(stage=stage.id, detail="diagnostic run")]
    elif stage.status is Status.READY:
        detail = f"{command.mode} dispatch"
        prepared = _prepare(state, stage, p.StagePrepared(stage=stage.id, detail=detail))
    elif stage.status is not Status.PREPARING or stage.open_attempt is not None:
        why = f"no attempt can start while it is {stage.status}"
        raise _mismatch(stage, stage.open_attempt, None, why)
    _met(state, stage)
    known: dict[str, Any] = {"attempt": f"att-{len(stage.attempts) + 1:04d}"}
    if command.recovers is not None:
        # What takes the place of a diagnostic run is one, and nothing else is.
        known["diagnostic"] = stage.attempts[-1].diagnostic
    return [*prepared, command.model_copy(update=known)]


def _no_amendment_pending(state: Workflow, stage: Stage) -> None:
    waiting = [amendment.id for amendment in state.pending_amendments]
    if state.plan is not None and state.plan.is_open:
        raise NeedsConsent(
            f"{stage.id} is not dispatched: no person has agreed to the plan yet. A person runs "
            "`wfctl amend approve plan` at a terminal, after a look at `wfctl amend show plan`.",
            stage=stage.id,
            amendments=waiting,
        )
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
        raise _mismatch(stage, attempt, lost, "not to be recovered")
    if attempt.action != "lost":
        why = f"it was observed as {attempt.verdict}, not as lost"
        raise _mismatch(stage, attempt, lost, why)
    if not can_recover(stage):
        raise _mismatch(stage, attempt, lost, "lost twice; it counts as failed")


def can_recover(stage: Stage) -> bool:
    """Whether a lost attempt of the stage may be replaced by a new one, not counted as a retry."""
    # Of a sweep only those recoveries count in which not one task came to its end.
    recovered = takewhile(
        lambda one: one.recovers is not None and not (one.tasks or {}).get("ended"),
        reversed(stage.attempts),
    )
    return len(list(recovered)) < RECOVERY_LIMIT


def _under_way(stage: Stage, named: str | None) -> Attempt:
    attempt = stage.open_attempt
    if attempt is None or (named is not None and attempt.id != named):
        raise _mismatch(stage, attempt, named, "that attempt is not under way")
    return attempt


def _known(stage: Stage, named: str) -> Attempt:
    found = next((one for one in stage.attempts if one.id == named), None)
    if found is None:
        raise _mismatch(stage, stage.attempt, named, "the stage has no such attempt")
    return found


def _launch(state: Workflow, stage: Stage, command: p.StageLaunched) -> Decision:
    """preparing → running; a synchronous attempt, and one of a running stage, keep the status.

    One that was launched before is recorded again where its jobs are others since.
    """
    if stage.status is not Status.RUNNING:
        _may_become(stage, Status.RUNNING, command.type)
    attempt = _under_way(stage, command.attempt)
    if (command.mode == "sync") != (attempt.mode == "sync"):
        why = f"{attempt.id} was started {attempt.mode}, not {command.mode}"
        raise _illegal(stage, Status.RUNNING, why)
    again = attempt.launched_at is not None
    if again and command.job_ids in ([], attempt.job_ids):
        why = f"{attempt.id} is recorded as launched, with these jobs"
        raise _illegal(stage, Status.RUNNING, why)
    return [command.model_copy(update={"again": again})]


def _reuse(state: Workflow, stage: Stage, command: p.OutputsReused) -> Decision:
    """ready → post_processing with the outputs of an attempt that computed from the same."""
    _no_amendment_pending(state, stage)
    detail = f"reuse of {command.attempt}"
    prepared = _prepare(state, stage, p.StagePrepared(stage=stage.id, detail=detail))
    source = next((one for one in reusable(state, stage) if one.id == command.attempt), None)
    if source is None:
        why = "no good attempt of that id computed by the present definition"
        raise _mismatch(stage, stage.attempt, command.attempt, why)
    said = command.as_json()
    for name, known in (("outputs", source.results), ("inputs", source.inputs)):
        if said[name] != known:
            why = f"its {name} were others than those that are named"
            raise _mismatch(stage, stage.attempt, command.attempt, why)
    return [*prepared, command]


def _compute(state: Workflow, stage: Stage, command: p.StageComputed) -> Decision:
    """running → post_processing, or preparing → post_processing for a synchronous attempt."""
    _may_become(stage, Status.POST_PROCESSING, command.type)
    attempt = _under_way(stage, command.attempt)
    if attempt.diagnostic:
        why = f"{attempt.id} is a diagnostic run, which ends in failed whatever its exit code"
        now, target = stage.status.value, Status.POST_PROCESSING.value
        raise IllegalTransition(stage.id, now, target, why, ["failed"])
    if stage.status is Status.PREPARING and attempt.mode != "sync":
        why = f"only a synchronous attempt passes over running, {attempt.id} is {attempt.mode}"
        raise _illegal(stage, Status.POST_PROCESSING, why)
    if command.exit_code != 0:
        raise MissingEvidence(
            f"{stage.id}: post_processing follows exit code 0, found {command.exit_code}; "
            "record stage.failed with the reason instead.",
            stage=stage.id,
            exit_code=command.exit_code,
        )
    if attempt.action == "failed":
        raise MissingEvidence(
            f"{stage.id}: {attempt.id} was seen to fail ({attempt.reason}); record stage.failed, "
            "or call `wfctl reconcile`, which looks again.",
            stage=stage.id,
            attempt=attempt.id,
        )
    found = _found_outputs(stage, attempt)
    recorded = p.OutputsRecorded(stage=stage.id, outputs=found, found=True)
    return [command, recorded] if found else [command]


def _found_outputs(stage: Stage, attempt: Attempt) -> list[str]:
    """Return what becomes the outputs of a stage that declares none: what its attempt left.

    What it printed counts only where it left nothing else.
    """
    if stage.declared_outputs:
        return []
    here = [one for one in attempt.left if one.get("at") is None and one["size"]]
    left = [one["path"] for one in here if is_below(one["path"], stage.id)]
    log = f"{stage.id}/log"
    written = [path for path in left if path not in (log, f"{stage.id}/err")]
    return written or [path for path in left if path == log]


def _complete(state: Workflow, stage: Stage, command: p.StageCompleted) -> Decision:
    """post_processing → completed, on checks that all passed or on evidence that is given."""
    _may_become(stage, Status.COMPLETED, command.type)
    _up_to_date(stage)
    _says_something(stage.id, "evidence", command.evidence)
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
    return [command.model_copy(update={"rests_on": rests_on(state, stage)})]


def _up_to_date(stage: Stage) -> None:
    """Refuse a result that was computed from what an amendment has changed since."""
    attempt = stage.attempt
    if attempt is not None and attempt.outdated_by is not None and stage.reused is None:
        raise MissingEvidence(
            f"{stage.id}: {attempt.id} was started before {attempt.outdated_by} changed what it "
            f"computes from; record `wfctl stage fail {stage.id} --error TEXT` and run it again.",
            stage=stage.id,
            attempt=attempt.id,
            amendment=attempt.outdated_by,
        )


def _fail(state: Workflow, stage: Stage, command: p.StageFailed) -> Decision:
    """preparing, running or post_processing → failed."""
    _may_become(stage, Status.FAILED, command.type)
    _says_something(stage.id, "error", command.error)
    if command.superseded_by is not None:
        raise NeedsConsent(
            f"{stage.id} is superseded only by an amendment that a person approved.", stage=stage.id
        )
    if command.attempt is not None and stage.status is not Status.POST_PROCESSING:
        _under_way(stage, command.attempt)
    error, output = in_one_line(command.error)
    said = {"error": error, "output": command.output or output}
    # What is over needs no stopping.
    stops = command.stop and stage.open_attempt is not None
    return [command.model_copy(update={**said, "stop": stops})]


def _retry(state: Workflow, stage: Stage, command: p.StageRetried) -> Decision:
    """failed → ready, counted, as long as the backend's limit is not reached.

    A fix that changed what only an amendment may change waits for that amendment.
    """
    _may_become(stage, Status.READY, command.type)
    _says_something(stage.id, "fix", command.fix)
    kind = state.backend_type(stage)
    limit = retry_limit(kind)
    if stage.retry_count >= limit:
        raise RetryLimitReached(stage.id, stage.retry_count, limit, kind)
    _met(state, stage)
    _not_by_hand(state, stage)
    if command.regenerate and not stage.parameters.get("command"):
        raise NothingToBuildFrom(stage.id)
    if command.failed_only and not command.proof:
        way = f"wfctl stage retry {stage.id} --fix TEXT --failed-only"
        raise undecided(command.type, way)
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


def _observe(state: Workflow, stage: Stage, command: p.AttemptObserved) -> Decision:
    """Record a verdict, unless it says what the newest one said."""
    attempt = _under_way(stage, command.attempt)
    known = attempt.waiting["reason"] if attempt.waiting else None
    same = (attempt.verdict, attempt.row, attempt.action, attempt.reason, known)
    if same == (command.verdict, command.row, command.action, command.reason, command.waiting):
        return []
    return [command]


def _relaunch(state: Workflow, stage: Stage, command: p.AttemptRelaunched) -> Decision:
    """Attach a monitor to the attempt under way again."""
    _under_way(stage, command.attempt)
    return [command]


def _overrule(state: Workflow, stage: Stage, command: p.ClaimOverruled) -> Decision:
    """Record that a person overruled the evidence on the newest attempt; never without a proof."""
    if stage.attempt is None or command.attempt != stage.attempt.id:
        raise _mismatch(stage, stage.attempt, command.attempt, "it is not the newest attempt")
    if not command.proof:
        raise undecided(command.type, f"wfctl stage compute {stage.id} --overrule TEXT")
    return [command]


def _stop(state: Workflow, stage: Stage, command: p.AttemptStopped) -> Decision:
    """Record that nothing is left of an attempt that is over; said once."""
    attempt = next((one for one in stage.attempts if one.id == command.attempt), None)
    if attempt is None or attempt.is_open:
        why = "only an attempt that is over is stopped; record its failure first"
        raise _mismatch(stage, stage.open_attempt, command.attempt, why)
    return [] if attempt.stopped_at is not None else [command]


def _leave(state: Workflow, stage: Stage, command: p.AttemptLeft) -> Decision:
    """Record what an attempt left, unless it is known."""
    known = _known(stage, command.attempt).left
    return [] if known == command.as_json()["files"] else [command]


def _observe_tasks(state: Workflow, stage: Stage, command: p.TasksObserved) -> Decision:
    """Record where the tasks of a sweep stand, unless the newest look said the same."""
    known = command.model_dump(mode="json", exclude={"stage", "attempt"})
    return [] if _known(stage, command.attempt).tasks == known else [command]


def _free(state: Workflow, stage: Stage, command: p.LeftoversFreed) -> Decision:
    """Record that leftovers are removed: of an attempt before the one that a stage rests on."""
    earlier = [one.id for one in stage.attempts[:-1] if one is not stage.source]
    if stage.status is not Status.COMPLETED or command.attempt not in earlier:
        why = "leftovers are freed of attempts before the one that a completed stage rests on"
        raise _mismatch(stage, stage.attempt, command.attempt, why)
    return [command]


def _record_outputs(state: Workflow, stage: Stage, command: p.OutputsRecorded) -> Decision:
    """Set the stage's list of outputs; what it was to leave may be added to, and not be dropped.

    Raises `InvalidPayload` for a path that leads out of the root, `NeedsConsent` where the list
    would lose one: a stage that must leave nothing is verified against nothing.
    """
    outside = [path for path in command.outputs if not stays_below(path)]
    if outside:
        problems = [f"outputs: expected a path below the root, found {one!r}" for one in outside]
        raise InvalidPayload(command.type, problems)
    declared = stage.declared_outputs
    dropped = [path for path in declared if command.found or path not in command.outputs]
    if dropped:
        raise NeedsConsent(
            f"{stage.id} must leave {', '.join(dropped)}; expected them among its outputs, found "
            f"{', '.join(command.outputs) or 'none'}. To ask for less, propose it: `wfctl amend "
            f"propose --stage {stage.id} --set 'outputs=[…]' --reason …`.",
            stage=stage.id,
            fields=["outputs"],
            dropped=dropped,
        )
    return [command]


def _adopt_results(state: Workflow, stage: Stage, command: p.ResultsAdopted) -> Decision:
    """Take results of a completed stage as they are now; others than its own are refused."""
    _check_results(stage, [one.path for one in command.outputs])
    if not command.outputs:
        return []
    if not command.proof:
        raise undecided(command.type, f"wfctl verify {stage.id} --adopt --reason TEXT")
    return [command.model_copy(update={"rests_on": rests_on(state, stage)})]


def _change_results(state: Workflow, stage: Stage, command: p.ResultsChanged) -> Decision:
    """Record which results of a completed stage are no more as recorded, unless that is known."""
    _check_results(stage, [one.path for one in command.files])
    return [] if command.as_json()["files"] == stage.changed else [command]


def _check_results(stage: Stage, paths: list[str]) -> None:
    """Raise `MissingEvidence` unless the paths are results of a completed stage."""
    known = {one["path"] for one in stage.results}
    strange = [path for path in paths if path not in known]
    if stage.status is not Status.COMPLETED or strange:
        found = ", ".join(strange) or f"a stage that is {stage.status.value}"
        raise MissingEvidence(
            f"{stage.id}: expected results of a completed stage, found {found}.",
            stage=stage.id,
            strange=strange,
        )


def _by_amendment(state: Workflow, stage: Stage, command: Payload) -> Decision:
    is_skip = command.type == "stage.skipped"
    target = Status.SKIPPED if is_skip else Status.INVALIDATED
    if transition(stage.status, target) is None:
        raise _illegal(stage, target, "not in the transition table")
    raise NeedsConsent(
        f"{stage.id} becomes {target.value} only by a person's decision: "
        f"propose an amendment (stage_{'skip' if is_skip else 'rerun'}).",
        stage=stage.id,
        status=stage.status.value,
        target=target.value,
    )


def _as_asked(state: Workflow, stage: Stage, command: Payload) -> Decision:
    return [command]


RULES: Mapping[str, Callable[[Workflow, Stage, Any], Decision]] = {
    "stage.readied": _ready,
    "stage.prepared": _prepare,
    "attempt.started": _start_attempt,
    "stage.launched": _launch,
    "stage.computed": _compute,
    "claim.overruled": _overrule,
    "stage.completed": _complete,
    "stage.failed": _fail,
    "stage.retried": _retry,
    "stage.invalidated": _by_amendment,
    "stage.skipped": _by_amendment,
    "attempt.observed": _observe,
    "attempt.relaunched": _relaunch,
    "attempt.stopped": _stop,
    "attempt.left": _leave,
    "tasks.observed": _observe_tasks,
    "leftovers.freed": _free,
    "outputs.recorded": _record_outputs,
    "outputs.reused": _reuse,
    "results.adopted": _adopt_results,
    "results.changed": _change_results,
    "checkpoint.recorded": _as_asked,
}
