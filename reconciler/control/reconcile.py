"""Compare the log with reality: collect evidence, reach a verdict and record the result.

Each step that follows from a verdict is a command, and the rules check it like any other command.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError, NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.rules.stages import can_replace_lost_attempt
from lifecycle.state.requested_resources import describe_reached_ceiling
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.waiting import can_never_start
from projections.words.remaining_processes import (
    format_remaining_processes,
    join_process_names,
)
from reconciler.attempt.markers import MarkerState
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import JobContext, Mode
from reconciler.control.dispatch import (
    attach_monitor,
    build_launch_command,
    check_files_before_start,
    dispatch_stage,
    launch_attempt,
    plan_next_attempt,
    prepare_attempt,
)
from reconciler.control.judge_attempts import (
    AttemptFinding,
    find_stages_in_flight,
    inspect_attempt,
    inspect_attempts,
    is_in_flight,
    is_launch_unrecorded,
    newest_attempt,
    record_unlogged_jobs,
)
from reconciler.control.stop_jobs import diagnose_attempt, stop_attempt, stop_marked_attempts
from reconciler.errors import MachineUnreachable, ReconcilerError, format_error_message
from reconciler.evidence.collect import record_orphaned_jobs, with_digests
from reconciler.evidence.evidence import Evidence
from reconciler.evidence.foreign_attempts import foreign_marker_paths
from reconciler.files import hand_launched_jobs
from reconciler.files.leftovers import collect_leftovers
from reconciler.files.restore_results import restore_results
from reconciler.records.resource_use import combine_resource_use
from reconciler.submission.fields import read_software_versions
from reconciler.sweep.stage_tasks import get_stage_tasks
from reconciler.verdict.diagnosis import Diagnosis, describe_attempt_disk_full
from reconciler.verdict.table import Action, hindered_verdict, is_ended_by_full_disk, is_hindered
from reconciler.verdict.waiting import why_waiting
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from pydantic import JsonValue

    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Attempt
    from reconciler.context import SubmissionFacts


#: Maximum number of stages recorded in one append.
_MAX_STAGES_AT_ONCE = 2_000


def reconcile_stages(
    jobs: JobContext, *, dry_run: bool = False, only: str | None = None
) -> list[AttemptFinding]:
    """Correct the log where it differs from reality, and return the findings.

    A finding contains the evidence on one attempt and the verdict on it. ``only`` names a single
    stage to check. With ``dry_run``, nothing is written or launched. The result omits stages for
    which another process recorded the end of the attempt in the meantime.
    """
    jobs = jobs.acting_as("reconciler")
    state = jobs.service.state()
    if not dry_run and only is None:
        stop_marked_attempts(jobs, tells=True)
        state = record_unlogged_jobs(jobs, state)
    stages = [stage for stage in find_stages_in_flight(state) if only in (None, stage.id)]
    if dry_run:
        return inspect_attempts(jobs, state, stages)
    found = _settle_stage_attempts(jobs, [stage.id for stage in stages])
    return [found[stage.id] for stage in stages if stage.id in found]


def _settle_stage_attempts(jobs: JobContext, ids: Sequence[str]) -> dict[str, AttemptFinding]:
    """Record findings about attempts of the stages, and carry out what follows from them.

    Findings that start no process are recorded together in a few appends, which is faster. Returns
    the findings by stage.
    """
    with jobs.lock_free_stages(ids) as mine:
        state = jobs.service.state()
        stages = [state.stage(id_) for id_ in ids if is_in_flight(state.stage(id_))]
        found = {finding.stage: finding for finding in inspect_attempts(jobs, state, stages)}
        news = [stage for stage in stages if _is_new_or_actionable(stage, found[stage.id])]
        plain = [s.id for s in news if s.id in mine and not _starts_process(s, found[s.id])]
        settled = _record_findings(jobs, state, [found[id_] for id_ in plain])
    for id_ in [stage.id for stage in news if stage.id not in settled]:
        now = _settle_attempt(jobs, found.pop(id_))
        found |= {} if now is None else {id_: now}
    return found


def _record_findings(
    jobs: JobContext, state: Workflow, findings: Sequence[AttemptFinding]
) -> set[str]:
    """Record findings about stages together, and return the ids of these stages.

    If an append fails, the findings are split into halves and tried again. A single finding that
    cannot be recorded is skipped, and its stage is not in the result.
    """
    if len(findings) <= _MAX_STAGES_AT_ONCE:
        # The append fails as a whole if another process changed one of the stages, or if a file of
        # one attempt is in the way. In this case smaller groups are tried.
        with suppress(LifecycleError, ReconcilerError, OSError):
            asked = [asked for found in findings for asked in _build_commands(jobs, state, found)]
            if asked:
                jobs.record_each(*asked, known=state)
            for finding in findings:
                _warn_about_remaining_processes(jobs, finding)
            return {finding.stage for finding in findings}
    half = len(findings) // 2
    if half == 0:
        return set()
    return _record_findings(jobs, state, findings[:half]) | _record_findings(
        jobs, state, findings[half:]
    )


def _is_new_or_actionable(stage: Stage, finding: AttemptFinding) -> bool:
    """Return whether a finding differs from the log or requires an action.

    A running sweep is always treated as new, because its tasks may have new results.
    """
    if is_sweep(stage.parameters) and finding.verdict.action is Action.WAIT:
        return True
    found, newest = finding.verdict, stage.attempts[-1]
    waits = newest.waiting["reason"] if newest.waiting else None
    told = (newest.verdict, newest.row, newest.reason, waits)
    known = (found.name, found.row, found.reason, why_waiting(finding.evidence)) == told
    idle = found.action in (Action.WAIT, Action.UNKNOWN)
    return not (known and idle) or is_launch_unrecorded(stage, finding.evidence, found)


def _starts_process(stage: Stage, finding: AttemptFinding) -> bool:
    """Return whether a process starts when the result of a finding is carried out."""
    action = finding.verdict.action
    return (
        action in (Action.ATTACH, Action.LAUNCH)
        or _starts_next_attempt(stage, finding)
        or finding.verdict.is_derived_from_tasks
    )


def _starts_next_attempt(stage: Stage, finding: AttemptFinding) -> bool:
    """Return whether another attempt takes the place of this attempt, without counting as a retry.

    Either this attempt was lost, or it computed the first tasks of a sweep.
    """
    action = finding.verdict.action
    is_replaced = action is Action.LOST and can_replace_lost_attempt(stage)
    return action is Action.CONTINUE or is_replaced


def _settle_attempt(jobs: JobContext, finding: AttemptFinding) -> AttemptFinding | None:
    """Inspect an attempt again while its stage is locked, and carry out the result.

    Returns the new finding, or None if the attempt has ended or was replaced in the meantime.
    """
    with jobs.lock_stage(finding.stage):
        state = jobs.service.state()
        stage = state.stage(finding.stage)
        if not is_in_flight(stage) or stage.attempts[-1].id != finding.attempt:
            return None
        now = inspect_attempt(jobs, state, stage, again=finding.evidence.looked_twice)
        attempt = newest_attempt(jobs, state, stage)
        try:
            # The monitors of this attempt end again and again for the same reason. Its results are
            # ready, so download them here instead of starting another monitor.
            in_vain = now.evidence.in_vain and now.verdict.is_uncollected
            if now.verdict.action is Action.ATTACH and (now.evidence.moved or in_vain):
                record_orphaned_jobs(attempt, now.evidence)
                restore_results(attempt)
                now = inspect_attempt(jobs, state, stage)
            if now.verdict.is_derived_from_tasks:
                # These modules are needed only if a stage has tasks.
                from reconciler.sweep.identical_replicates import build_replicate_warnings
                from reconciler.sweep.judge_tasks import close_tasks

                observed = close_tasks(state, stage, attempt)
                notes = build_replicate_warnings(jobs.root, stage)
                for note in notes:
                    jobs.say(note.text, level="warning", stage=stage.id)
                state = jobs.record(observed, *notes).state
                stage = state.stage(stage.id)
                now = inspect_attempt(jobs, state, stage, again=now.evidence.looked_twice)
            now = _postpone_forbidden_start(jobs, state, stage, now)
            _carry_out(jobs, state, stage, now)
        except (ReconcilerError, OSError, NeedsConsent) as error:
            now = _warn_and_postpone_step(jobs, now, format_error_message(error, jobs.root))
            # If the failed step has already ended the attempt or started the next one, the rules
            # refuse this record. The refusal can be ignored.
            with suppress(LifecycleError):
                jobs.record(_build_observation(now))
        return now


def _postpone_forbidden_start(
    jobs: JobContext, state: Workflow, stage: Stage, now: AttemptFinding
) -> AttemptFinding:
    """Return the finding, or a finding to wait if its next job may not start.

    The changed finding contains the reason, and the reason is printed as a warning.
    """
    action = now.verdict.action
    if action is not Action.LAUNCH and not _starts_next_attempt(stage, now):
        return now
    try:
        check_files_before_start(jobs, state, stage, again=True)
    except (Refused, NeedsConsent) as error:
        return _warn_and_postpone_step(jobs, now, error.message)
    if is_ended_by_full_disk(now.evidence) and not _is_known_hindrance(stage, now):
        return _warn_and_postpone_step(
            jobs, now, describe_attempt_disk_full(newest_attempt(jobs, state, stage))
        )
    return now


def _is_known_hindrance(stage: Stage, now: AttemptFinding) -> bool:
    """Return whether the log already names an obstacle for this exit of the monitor."""
    recorded = stage.attempts[-1]
    known = recorded.evidence if is_hindered(recorded.verdict) else None
    return known is not None and Evidence.from_dict(known).exit_marker == now.evidence.exit_marker


def _warn_and_postpone_step(jobs: JobContext, now: AttemptFinding, said: str) -> AttemptFinding:
    """Print a warning that a step failed, and return a finding to wait instead.

    The processing of all other stages continues.
    """
    said = said.removeprefix(f"{now.stage}: ")
    text = f"{now.stage}: wfctl could not continue with {now.attempt} ({now.verdict.name}): {said}"
    jobs.say(text, level="warning", stage=now.stage, attempt=now.attempt)
    return replace(
        now, verdict=hindered_verdict(said), steps=("change nothing and check again later",)
    )


def _warn_about_remaining_processes(jobs: JobContext, finding: AttemptFinding) -> None:
    """Print a warning if the command of a successful attempt left processes running."""
    processes = finding.evidence.remaining
    if processes and finding.verdict.action is Action.SUCCEEDED:
        text = format_remaining_processes(finding.stage, processes)
        jobs.say(f"{finding.stage}: {text}", level="warning", stage=finding.stage)


def _carry_out(jobs: JobContext, state: Workflow, stage: Stage, finding: AttemptFinding) -> None:
    attempt, recorded = newest_attempt(jobs, state, stage), stage.attempts[-1]
    found = finding.verdict
    if found.action is Action.ATTACH:
        record_orphaned_jobs(attempt, finding.evidence)
    jobs.record_each(*_build_commands(jobs, state, finding))
    _warn_about_remaining_processes(jobs, finding)
    if _starts_next_attempt(stage, finding):
        _replace_lost_attempt(jobs, state, stage)
    if found.action not in (Action.ATTACH, Action.LAUNCH):
        return
    if recorded.taken_over:
        session = hand_launched_jobs.sanitize_session_name(recorded.session or f"dpdisp_{stage.id}")
        jobs.record(
            p.AttemptRelaunched(
                stage=stage.id,
                attempt=recorded.id,
                mode=Mode.TMUX.value,
                session=session,
                reason=found.reason,
            )
        )
        old_markers = [jobs.root / name for name in foreign_marker_paths(stage)]
        hand_launched_jobs.restart_wrapper(
            jobs.root, stage.id, session, recorded.wrapper, old_markers
        )
        return
    mode = Mode(recorded.mode)
    jobs.record(
        p.AttemptRelaunched(
            stage=stage.id,
            attempt=recorded.id,
            mode=mode.value,
            session=attempt.session if mode is Mode.TMUX else None,
            reason=found.reason,
        )
    )
    if found.action is Action.LAUNCH:
        # If wfctl crashed after it recorded the attempt, old output files may still be in place.
        # `launch_attempt` moves them aside.
        launch_attempt(jobs, stage, attempt, mode, known=recorded.launched_at is not None)
    else:
        attach_monitor(jobs, attempt, mode)


def _build_missing_launch_command(
    attempt: AttemptPaths, recorded: Attempt, evidence: Evidence, facts: SubmissionFacts
) -> Payload:
    """Build the command that records a launch which the log does not contain yet.

    If the monitor died before it wrote the ids of the jobs, the ids come from the evidence.
    """
    if recorded.taken_over:
        found = build_launch_command(attempt, Mode(recorded.mode), facts)
        return found.model_copy(update={"session": recorded.session})
    ids = facts.job_ids or tuple(job.id for job in evidence.jobs if job.id is not None)
    return build_launch_command(attempt, Mode(recorded.mode), replace(facts, job_ids=ids))


def _build_commands(
    jobs: JobContext, state: Workflow, finding: AttemptFinding
) -> list[tuple[Payload, str | None]]:
    """Build the commands that record the results of a finding, each with its time or None.

    Commands that start a process are not included. The rules ignore commands that change nothing.
    """
    stage, found, evidence = state.stage(finding.stage), finding.verdict, finding.evidence
    attempt, recorded, action = newest_attempt(jobs, state, stage), stage.attempts[-1], found.action
    news: list[Payload] = []
    if is_launch_unrecorded(stage, evidence, found):
        news.append(
            _build_missing_launch_command(attempt, recorded, evidence, jobs.runner.facts(attempt))
        )
    if found.is_over:
        # Do not download leftover files if the next attempt of the stage would immediately move
        # them aside, or if the run was only a diagnostic one.
        stays = _starts_next_attempt(stage, finding) or recorded.diagnostic
        # Leftover files are recorded before the end of the attempt, because they may become outputs
        # of the ended attempt.
        news += collect_leftovers(state, stage, attempt, bring=not stays)
    if action in (Action.WAIT, Action.ATTACH):
        # An attempt that still runs may have new results of tasks.
        news += get_stage_tasks(jobs.root, state, stage).progress(attempt)
    if action is Action.SUCCEEDED:
        evidence = with_digests(jobs.root, evidence)
    finding = replace(finding, evidence=evidence)
    seen, ends = _build_observation(finding), _build_end(state, stage, attempt, finding)
    # The end is recorded with the time at which the job ended. A time in the future comes from a
    # wrong clock, so the time of the observation replaces it.
    ended = found.occurred_at and min(found.occurred_at, evidence.observed_at)
    return [*((one, None) for one in (seen, *news)), *((one, ended) for one in ends)]


def _build_observation(finding: AttemptFinding) -> p.AttemptObserved:
    """Build the command that records the evidence on an attempt and the verdict."""
    is_open = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
    return p.AttemptObserved(
        stage=finding.stage,
        attempt=finding.attempt,
        row=finding.verdict.row,
        verdict=finding.verdict.name,
        action=finding.verdict.action.value,
        reason=finding.verdict.reason,
        evidence=finding.evidence.to_dict(),
        waiting=why_waiting(finding.evidence) if is_open else None,
    )


def _build_end(
    state: Workflow, stage: Stage, attempt: AttemptPaths, finding: AttemptFinding
) -> Iterator[p.StageComputed | p.StageFailed]:
    """Yield the command that records how an attempt ended: computed or failed.

    Yields nothing if the attempt has not ended, or if a new attempt will replace a lost one.
    """
    recorded, found, evidence = stage.attempts[-1], finding.verdict, finding.evidence
    used = combine_resource_use(job.used for job in evidence.jobs if job.used)

    def failed(*circumstances: str) -> p.StageFailed:
        diagnosed = diagnose_attempt(state, stage, attempt, evidence, found.name)
        short_of = None if recorded.diagnostic else diagnosed.short_of
        ceiling = describe_reached_ceiling(state, stage, short_of)
        more = (*circumstances, ceiling) if ceiling else circumstances
        failure = build_stage_failure(stage.id, recorded.id, diagnosed, *more)
        return failure.model_copy(update={"short_of": short_of})

    if found.action is Action.SUCCEEDED and recorded.diagnostic:
        yield failed("a diagnostic run")
    elif found.action is Action.SUCCEEDED:
        ids: list[JsonValue] = [job.id for job in evidence.jobs if job.id]
        known: dict[str, JsonValue] = {
            "job_ids": ids,
            "environment": {**read_software_versions(attempt)},
        }
        detail = f": {found.reason}" if found.is_derived_from_tasks else ", exit 0"
        processes = evidence.remaining
        detail += f"; still running: {join_process_names(processes)}" if processes else ""
        yield p.StageComputed(
            stage=stage.id,
            attempt=recorded.id,
            exit_code=0,
            detail=f"{recorded.id}{detail}",
            facts={name: value for name, value in known.items() if value},
            resources=used,
        )
    elif found.action is Action.FAILED:
        # For a failed command, the exit code and the output explain the failure. The reason of the
        # verdict would only repeat that it failed.
        is_told = found.is_failed_command and not recorded.taken_over
        more = [] if is_told else [found.reason]
        code = next((job.shown_exit_code for job in evidence.jobs if job.shown_exit_code), None)
        if recorded.taken_over and evidence.exit_marker.seen is MarkerState.OWN:
            code = code or evidence.exit_marker.code
        yield failed(*more).model_copy(update={"exit_code": code, "resources": used})
    elif found.action is Action.LOST and not can_replace_lost_attempt(stage):
        yield failed(f"the attempt was lost twice; the last time: {found.reason}")


def build_stage_failure(
    stage: str, attempt: str, found: Diagnosis, *circumstances: str
) -> p.StageFailed:
    """Build the command that records the failure of a stage's attempt.

    The error text joins the cause, the ends of the attempt's jobs and the ``circumstances``,
    without duplicates.
    """
    cause = [found.cause] if found.cause else []
    lines = [*cause, *found.jobs, *circumstances]
    return p.StageFailed(
        stage=stage,
        attempt=attempt,
        error="; ".join(dict.fromkeys(lines)) or "the attempt left no trace of a failure",
        category=found.category,
        because=found.because,
        output=found.output,
    )


def _replace_lost_attempt(jobs: JobContext, state: Workflow, stage: Stage) -> None:
    """Stop all processes of a lost attempt, then start a new attempt in its place.

    If a process may still be running, prints a warning and starts nothing.
    """
    lost = stage.attempts[-1]
    try:
        does_not_end = stop_attempt(newest_attempt(jobs, state, stage)).left
        left = f"{', '.join(does_not_end)} does not stop" if does_not_end else ""
    except MachineUnreachable as error:
        left = error.message
    if left:
        text = (
            f"{stage.id}: no new attempt is started, because {lost.id} may still be running: {left}"
        )
        jobs.say(text, level="warning", stage=stage.id, attempt=lost.id)
        return
    # The record of the tasks shows which of their results are still complete.
    state = get_stage_tasks(jobs.root, state, stage).close_ended(lambda one: jobs.record(one).state)
    stage = state.stage(stage.id)
    attempt = plan_next_attempt(jobs, state, stage, lost.diagnostic)
    mode = Mode(lost.mode)
    command = prepare_attempt(jobs, state, stage, attempt, mode, lost.id, lost.diagnostic)
    jobs.record(command)
    launch_attempt(jobs, stage, replace(attempt, sha256=command.submission_sha256), mode)


#: Seconds until wfctl first checks why a monitored attempt makes no progress, between later checks,
#: and between checks if the machine does not answer. Asking a machine that does not answer is slow,
#: so it is asked less often.
_REASON_FIRST, _REASON_AGAIN, _REASON_OF_SILENT = 10.0, 60.0, 600.0
#: Maximum pause in seconds before the next monitor of an attempt is started if its monitors keep
#: dying.
_LONGEST_PAUSE = 60.0
#: Seconds between two checks whether monitors still hold their locks.
POLL_INTERVAL = 0.1


@dataclass(slots=True)
class StageCheckSchedule:
    """The times at which a stage is checked next while a caller waits for it.

    If the monitors of the stage keep dying, the pauses between them grow.
    """

    due: float = 0.0
    pause: float = 0.0
    #: Time of the next check of why the monitored attempt makes no progress.
    reason_due: float = field(default_factory=lambda: time.monotonic() + _REASON_FIRST)


def wait_and_record_ends(
    jobs: JobContext, ids: Sequence[str], timeout: float | None = None
) -> None:
    """Wait until the attempts of the stages have ended, and record each end immediately.

    Returns early after ``timeout`` seconds. Stops waiting for a stage if its status can never be
    known. A machine that does not answer is asked again. Raises `UnknownStage` for an unknown id,
    before waiting starts.
    """
    end = None if timeout is None else time.monotonic() + timeout
    state = jobs.service.state()
    turns = {id_: StageCheckSchedule() for id_ in ids if is_in_flight(state.stage(id_))}
    while turns:
        for id_ in [id_ for id_, turn in turns.items() if is_check_due(jobs, state, id_, turn)]:
            beyond_help = settle_and_is_waiting_useless(jobs, id_)
            state = jobs.service.state()
            if beyond_help or not is_in_flight(state.stage(id_)):
                del turns[id_]
        if end is not None and time.monotonic() >= end:
            break
        jobs.waits(state, turns)
        time.sleep(POLL_INTERVAL if turns else 0)
    jobs.waits(state, ())


def is_check_due(jobs: JobContext, state: Workflow, id_: str, turn: StageCheckSchedule) -> bool:
    """Return whether the stage must be checked and its state recorded now.

    This is the case if no monitor watches its attempt, or if the attempt now waits for another
    reason than the log states.
    """
    stage = state.stage(id_)
    if stage.attempt is not None:
        attempt = jobs.attempt(state, stage, stage.attempt.id)
        if time.monotonic() < turn.due:
            return False
        if not jobs.runner.wait(attempt, timeout=0):
            return _has_new_waiting_reason(jobs, state, stage, turn)
    turn.due = time.monotonic() + turn.pause
    turn.pause = min(2 * turn.pause or 0.1, _LONGEST_PAUSE)
    return True


def _has_new_waiting_reason(
    jobs: JobContext, state: Workflow, stage: Stage, turn: StageCheckSchedule
) -> bool:
    """Return whether an attempt now waits for another reason than the reason in the log.

    The check is slow, so it is made only after the time ``turn.reason_due``.
    """
    if time.monotonic() < turn.reason_due or not is_in_flight(stage):
        return False
    recorded, seen = stage.attempts[-1].waiting, None
    with suppress(ReconcilerError, OSError):
        seen = inspect_attempt(jobs, state, stage).evidence
    is_silent = seen is None or seen.missing_answer_reason is not None
    turn.reason_due = time.monotonic() + (_REASON_OF_SILENT if is_silent else _REASON_AGAIN)
    return seen is not None and why_waiting(seen) != (recorded["reason"] if recorded else None)


def settle_and_is_waiting_useless(jobs: JobContext, id_: str) -> bool:
    """Record the current status of a stage, and return whether waiting for it is useless.

    This is the case if its job can never start, or if its status can never be known.
    """
    finding = next(iter(reconcile_stages(jobs, only=id_)), None)
    if finding is None:
        return False
    if can_never_start(why_waiting(finding.evidence)):
        return True
    if finding.verdict.action is not Action.UNKNOWN:
        return False
    why_not = finding.evidence.missing_answer_reason
    if why_not is not None:
        text = f"{id_}: the status of {finding.attempt} is unknown ({why_not}); wfctl checks again"
        jobs.say(text, level="warning", stage=id_, attempt=finding.attempt)
    return why_not is None


def dispatch_sync(
    jobs: JobContext,
    id_: str,
    options: WriteOptions,
    *,
    diagnostic: bool = False,
    first_tasks: int | None = None,
) -> Outcome:
    """Launch an attempt of the stage, wait until it ends, and record its end."""
    outcome = dispatch_stage(
        jobs, id_, sync=True, options=options, diagnostic=diagnostic, first_tasks=first_tasks
    )
    if options.dry_run or outcome.repeated:
        return outcome
    wait_and_record_ends(jobs, [id_])
    return outcome._replace(stands=jobs.service.state())
