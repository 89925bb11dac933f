"""Judge attempts by their evidence, and find jobs that the log does not contain.

Such jobs were launched by a person, or belong to an attempt whose part of the log was lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventstore.regular_files import NotRegular
from lifecycle.errors import LifecycleError, Refused
from lifecycle.payload import models as p
from lifecycle.rules.stages import can_replace_lost_attempt
from lifecycle.state.conditions import list_needed_files
from lifecycle.state.requested_resources import is_memory_shortage_certain
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.words.remaining_processes import join_process_names
from projections.words.text import parse_time_to_epoch
from reconciler.attempt import execution_host as machine
from reconciler.attempt.markers import MarkerState
from reconciler.attempt.observations import ObservedJob
from reconciler.attempt.paths import (
    ATTEMPTS,
    LAUNCH_RECORD,
    AttemptPaths,
    digest_submission,
    list_prepared_attempt_names,
    parse_attempt_name,
)
from reconciler.context import JobContext, Mode
from reconciler.dpdispatcher.watch import AGAIN, confirm_with_second_check
from reconciler.errors import DamagedAttempt, ReconcilerError
from reconciler.evidence.collect import Survey, collect_evidence, survey_attempts
from reconciler.evidence.evidence import Evidence
from reconciler.evidence.foreign_attempts import add_foreign_launch
from reconciler.far import query_machine
from reconciler.files import hand_launched_jobs
from reconciler.files.attempt_inputs import find_foreign_launch_inputs
from reconciler.files.described_submission import build_attempt_submission, get_stage_submission
from reconciler.host import processes
from reconciler.records.traces import (
    identify_file,
    list_forwarded_files,
    read_json,
    read_launch_time,
    read_started_jobs,
)
from reconciler.sweep.stage_tasks import get_stage_tasks
from reconciler.verdict.table import (
    Action,
    Verdict,
    derive_verdict,
    is_remote_folder_missing,
    needs_fresh_answer,
    unreadable_verdict,
    verdict_after_move,
    verdict_on_unlogged_attempt,
)
from service.root.atomic_files import utc_text
from service.root.folder_entries import is_folder, stat_of
from service.root.root import describe_copy_source, has_former_place
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import TemplatedError

#: Maximum number of monitors that end for the same reason. After that, no further monitor is
#: started.
MAX_EQUAL_RELAUNCHES = 3
#: Errors that reading a damaged file may raise.
DAMAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, ReconcilerError)


@dataclass(frozen=True, slots=True)
class AttemptFinding:
    """A finding about one attempt: its evidence, the verdict on it, and the planned steps."""

    stage: str
    attempt: str
    evidence: Evidence
    verdict: Verdict
    steps: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return {
            "stage": self.stage,
            "attempt": self.attempt,
            "verdict": self.verdict.to_dict(),
            "action": self.verdict.action.value,
            "steps": list(self.steps),
            "evidence": self.evidence.to_dict(),
        }


def find_stages_in_flight(state: Workflow) -> list[Stage]:
    """Return the stages whose newest attempt has no recorded end, in plan order."""
    return [stage for stage in state.stages.values() if is_in_flight(stage)]


def is_in_flight(stage: Stage) -> bool:
    """Return whether the newest attempt of the stage has started and has no recorded end."""
    under_way = stage.status in (Status.PREPARING, Status.RUNNING)
    return under_way and stage.open_attempt is not None


def inspect_attempt(
    jobs: JobContext, state: Workflow, stage: Stage, *, again: bool = False
) -> AttemptFinding:
    """Collect the evidence on the newest attempt of a stage, and return the finding.

    ``again`` states that an earlier check already found the same items missing. Otherwise a check
    that finds items missing is repeated.
    """
    if again:
        return _inspect_once(jobs, state, [stage], again=True, fresh=True)[stage.id]
    return inspect_attempts(jobs, state, [stage])[0]


def inspect_attempts(
    jobs: JobContext, state: Workflow, stages: Sequence[Stage]
) -> list[AttemptFinding]:
    """Inspect the newest attempts of the stages, and return one finding for each.

    If something is missing, for example a job in the queue, the check is repeated some seconds
    later, because schedulers and other machines report with a delay.
    """
    found = _inspect_once(jobs, state, stages, again=False, fresh=False)
    seen = {id_: (one.evidence, one.verdict) for id_, one in found.items()}
    outdated = [stage for stage in stages if needs_fresh_answer(*seen[stage.id])]
    found |= _inspect_once(jobs, state, outdated, again=False, fresh=True)
    missing = [stage for stage in stages if found[stage.id].verdict.needs_second_look]
    if missing:
        time.sleep(AGAIN)
        found |= _inspect_once(jobs, state, missing, again=True, fresh=True)
    return [found[stage.id] for stage in stages]


def _inspect_once(
    jobs: JobContext, state: Workflow, stages: Sequence[Stage], *, again: bool, fresh: bool
) -> dict[str, AttemptFinding]:
    """Inspect the newest attempt of each stage once, and return the findings by stage.

    With ``fresh``, the last answers of the schedulers are not reused. An attempt whose files are
    damaged gets a finding that states this. The other attempts are not affected.
    """
    attempts = {stage.id: newest_attempt(jobs, state, stage) for stage in stages}
    damaged = dict[str, Exception]()
    for id_, attempt in attempts.items():
        try:
            machine.load_execution_host(attempt)
        except DAMAGE_ERRORS as error:
            damaged[id_] = error
    known = [one for id_, one in attempts.items() if id_ not in damaged]
    survey = survey_attempts(known, fresh=fresh)
    found = dict[str, AttemptFinding]()
    for stage in stages:
        attempt = attempts[stage.id]
        try:
            if stage.id in damaged:
                raise damaged[stage.id]
            evidence, judged = _judge_attempt(jobs, state, survey, stage, attempt, again=again)
        except DAMAGE_ERRORS as error:
            evidence, judged = _build_unreadable_finding(jobs, attempt, error)
        steps = tuple(_describe_steps(stage, evidence, judged))
        found[stage.id] = AttemptFinding(stage.id, attempt.id, evidence, judged, steps)
    return found


def _build_unreadable_finding(
    jobs: JobContext, attempt: AttemptPaths, error: Exception
) -> tuple[Evidence, Verdict]:
    evidence = Evidence(
        observed_at=jobs.now(),
        attempt=attempt.tag,
        root_now=str(attempt.root),
        host_now=processes.host(),
        boot_now=processes.boot_id(),
    )
    if not isinstance(error, ReconcilerError):
        error = DamagedAttempt(attempt.stage, attempt.folder, f"cannot be read ({error})")
    return evidence, unreadable_verdict(error.message)


def _judge_attempt(
    jobs: JobContext,
    state: Workflow,
    survey: Survey,
    stage: Stage,
    attempt: AttemptPaths,
    *,
    again: bool,
) -> tuple[Evidence, Verdict]:
    recorded = stage.attempts[-1]
    # A job that a person launched, or an imported attempt without a folder, has no records of
    # wfctl. Its tmux session and its markers are the only evidence.
    foreign = recorded.taken_over or not (recorded.submission_sha256 or attempt.folder.is_dir())
    evidence = collect_evidence(
        attempt,
        jobs.now(),
        # If the log of the attempt was lost, the root in its launch record is used instead.
        recorded_root=recorded.root if foreign or recorded.submission_sha256 else None,
        recorded_host=recorded.host,
        recorded_boot=recorded.boot_id,
        survey=survey,
    )
    evidence = replace(
        evidence,
        looked_twice=again,
        last_chance=not can_replace_lost_attempt(stage),
        in_vain=recorded.relaunches_alike >= MAX_EQUAL_RELAUNCHES,
        verifiable=bool(stage.parameters.get("verify")),
    )
    if is_remote_folder_missing(evidence) and not evidence.jobs:
        # The files of the attempt were removed, so the job ids in the log are the only information
        # about its jobs.
        known_jobs = tuple(ObservedJob(id_, id=id_) for id_ in recorded.job_ids)
        evidence = replace(evidence, jobs=known_jobs)
    if foreign:
        evidence = add_foreign_launch(evidence, state, stage, jobs.root, fresh=survey.is_fresh)
    found = derive_verdict(evidence)
    if found.is_folder_refused and query_machine.has_other_remote_root(attempt):
        evidence = replace(evidence, moved=True)
        found = derive_verdict(evidence)
    evidence, found = _explain_other_place(jobs, stage, evidence, found)
    if not foreign:
        if found.is_killed_job and is_memory_shortage_certain(state, stage):
            found = replace(found, action=Action.FAILED)
        found = get_stage_tasks(jobs.root, state, stage).judge(attempt, found)
    return evidence, found


def _explain_other_place(
    jobs: JobContext, stage: Stage, evidence: Evidence, found: Verdict
) -> tuple[Evidence, Verdict]:
    """Return the evidence and the verdict, changed if the attempt was launched elsewhere.

    The root may have been moved or copied, or the attempt may run on another host.
    """
    recorded = stage.attempts[-1]
    if found.is_elsewhere and has_former_place(jobs.service.root, recorded.root, recorded.host):
        evidence, found = verdict_after_move(evidence)
    elif found.is_elsewhere and (original := describe_copy_source(jobs.service.root)) is not None:
        why = (
            f"the attempt belongs to {original}; this root is a copy of that folder and does "
            "not touch the attempt. To compute the stage here too, run `wfctl stage fail "
            f"{stage.id} --error copied`, then `wfctl stage retry {stage.id} --fix TEXT`"
        )
        found = replace(found, reason=why)
    elif found.is_elsewhere and evidence.root_recorded == evidence.root_now:
        why = (
            f"the attempt was launched on {evidence.host_recorded}, and this host is "
            f"{evidence.host_now}. Continue on {evidence.host_recorded}. If both are the same "
            f"machine, or {evidence.host_recorded} no longer exists, run `wfctl --root-is "
            "moved rehydrate`"
        )
        found = replace(found, reason=why)
    return evidence, found


def newest_attempt(jobs: JobContext, state: Workflow, stage: Stage) -> AttemptPaths:
    """Return the paths of the files of the stage's newest attempt."""
    return jobs.attempt(state, stage, stage.attempts[-1].id)


def _describe_steps(stage: Stage, evidence: Evidence, found: Verdict) -> Iterator[str]:
    """Yield a sentence for each step that follows from the verdict on an attempt."""
    again = "start a new attempt, not counted as a retry"
    words = {
        Action.WAIT: "wait for the attempt",
        Action.ATTACH: "attach a monitor to the attempt; nothing is computed again",
        Action.LAUNCH: "launch the attempt",
        Action.SUCCEEDED: "record that the attempt was computed",
        Action.FAILED: "record that the attempt failed",
        Action.LOST: again
        if can_replace_lost_attempt(stage)
        else "record that the attempt failed: lost twice",
        Action.CONTINUE: "start a new attempt with the other tasks, not counted as a retry",
        Action.UNKNOWN: "change nothing and check again later",
    }
    if is_launch_unrecorded(stage, evidence, found):
        yield "record that the attempt was launched"
    yield words[found.action]


def is_launch_unrecorded(stage: Stage, evidence: Evidence, found: Verdict) -> bool:
    """Return whether the log must still record the launch of an attempt that was launched.

    This is also true if the launch is recorded without the ids of the jobs, and the ids are known
    now.
    """
    recorded = stage.attempts[-1]
    # For other attempts no job ids can be read, so missing ids are not a reason to record the
    # launch again.
    unread = recorded.taken_over or not any(job.id for job in evidence.jobs)
    has_ids = recorded.job_ids or unread
    was_launched = found.action in (Action.WAIT, Action.ATTACH, Action.SUCCEEDED)
    return was_launched and not (recorded.launched_at is not None and has_ids)


class UnloggedAttemptRunning(TemplatedError, Refused):
    """An attempt that is not in the log runs, or may run, in the folder of the stage."""

    code = "stranger_at_work"
    text = (
        "the folder {folder} belongs to an attempt of the stage {stage} that is not in this log, "
        "and the attempt may still be running: {why}{at_work}. Wait until the attempt has ended, "
        "or stop the attempt. If it has ended already, move this folder away. Then try again. "
        "wfctl never uses the results of this attempt for this workflow."
    )
    untold = ("why", "at_work")
    stage: str
    folder: Path
    why: str
    at_work: str


def check_unlogged_attempts(jobs: JobContext, state: Workflow, stage: Stage) -> None:
    """Print a warning about each unused result of an attempt that is not in the log.

    Raises `UnloggedAttemptRunning` if such an attempt is or may be running in the stage's folder.
    """
    for stranger in (
        *_find_unlogged_attempts(jobs, state, stage),
        *_find_attempts_without_folder(jobs, state, stage),
    ):
        evidence, found = _inspect_unlogged_attempt(jobs, stage, stranger)
        if is_possibly_running(found) or found.stop:
            who = [f"process {tenant.pid}" for tenant in evidence.tenants or ()]
            who += [f"job {job.id}" for job in evidence.jobs if job.id is not None]
            at_work = f" ({join_process_names([who])})" if who else ""
            traces_of_it = (stranger.folder, stranger.start_claims_folder)
            folder = next((one for one in traces_of_it if one.is_dir()), stranger.folder)
            raise UnloggedAttemptRunning(stage.id, folder, found.reason, at_work)
        if found.is_uncollected or _has_outputs_in_place(evidence, found):
            where = "left in place" if evidence.copies else "moved aside"
            jobs.say(
                f"{stage.id}: {stranger.folder} contains the result of an attempt that is not "
                f"in this log; the result is {where} and not used",
                level="warning",
                stage=stage.id,
            )


def _inspect_unlogged_attempt(
    jobs: JobContext, stage: Stage, stranger: AttemptPaths
) -> tuple[Evidence, Verdict]:
    """Collect the evidence on an attempt that is not in the log, and judge it.

    If its jobs are missing, the check is repeated. Raises `UnloggedAttemptRunning` if its files
    cannot be read.
    """

    def look_once(again: bool) -> tuple[Evidence, Verdict]:
        try:
            survey = survey_attempts([stranger], fresh=True)
            evidence = collect_evidence(stranger, jobs.now(), survey=survey)
            evidence = replace(evidence, looked_twice=again)
        except DAMAGE_ERRORS as error:
            why = f"cannot be read ({error})"
            raise UnloggedAttemptRunning(stage.id, stranger.folder, why, "") from error
        # If the root was copied, no job of the attempt runs in the copy. If the root was moved, its
        # running jobs are found.
        return verdict_on_unlogged_attempt(evidence)

    return confirm_with_second_check(look_once)


def _find_unlogged_attempts(
    jobs: JobContext, state: Workflow, stage: Stage
) -> Iterator[AttemptPaths]:
    """Yield each attempt in the stage's folder that was launched but is not in the log."""
    known = {attempt.name for attempt in stage.attempts}
    for record in sorted((jobs.root / stage.id / ATTEMPTS).glob(f"att-*/{LAUNCH_RECORD}")):
        name = record.parent.name
        if name not in known:
            outputs = tuple(stage.declared_outputs)
            yield parse_attempt_name(jobs.root, state.id, stage.id, name, outputs)


def _find_attempts_without_folder(
    jobs: JobContext, state: Workflow, stage: Stage
) -> Iterator[AttemptPaths]:
    """Yield each attempt of the stage that is not in the log and whose folder was removed.

    A job on this machine has left its claim to start next to the log. A job on another machine
    leaves no claim here, so that machine must be asked.
    """
    known = {attempt.name for attempt in stage.attempts}
    for name in list_prepared_attempt_names(jobs.root, stage.id):
        outputs = tuple(stage.declared_outputs)
        one = parse_attempt_name(jobs.root, state.id, stage.id, name, outputs)
        if name in known or one.launch_record.exists():
            continue
        one = replace(one, sha256=machine.find_submission_digest(one))
        if read_started_jobs(one) or machine.load_execution_host(one).is_far:
            yield one


def is_possibly_running(found: Verdict) -> bool:
    """Return whether, according to the verdict, an attempt runs or may run."""
    at_work = found.action in (Action.WAIT, Action.ATTACH, Action.UNKNOWN)
    return at_work and not found.is_uncollected


_SECOND = 1_000_000_000


def _has_outputs_in_place(evidence: Evidence, found: Verdict) -> bool:
    """Return whether an attempt has succeeded and its outputs are still in place.

    The marker in the stage's folder belongs to this attempt, so no later attempt has ended there.
    """
    succeeded = found.action is Action.SUCCEEDED
    return succeeded and evidence.done_marker.seen is MarkerState.OWN


@dataclass(frozen=True, slots=True)
class UnloggedAttempt:
    """An attempt that ran in this root but is missing in the log.

    ``started`` is the command that records the attempt, and ``since`` the time of its start.
    ``is_over`` is true if the attempt has ended and its result will be used.
    """

    started: p.AttemptStarted
    since: str
    is_over: bool


def _find_unlogged_attempt(
    jobs: JobContext, state: Workflow, stage: Stage
) -> UnloggedAttempt | None:
    """Return an attempt that is missing in the log and that the stage can use, or None.

    The attempt still runs, or has succeeded with the result that the stage would compute now.
    Returns None also if more than one attempt qualifies.
    """
    if not hand_launched_jobs.may_have_manual_job(stage):
        return None
    found = list[tuple[AttemptPaths, bool]]()
    for one in _find_unlogged_attempts(jobs, state, stage):
        with suppress(LifecycleError, ReconcilerError, OSError, NotRegular):
            if not _is_newer_than_log_and_inputs(jobs, state, stage, one):
                continue
            evidence, judged = _inspect_unlogged_attempt(jobs, stage, one)
            if is_possibly_running(judged):
                goes_on, is_over = _can_be_watched(one), False
            else:
                goes_on, is_over = _has_usable_result(jobs.root, stage, one, evidence, judged), True
            if goes_on and _has_current_definition(jobs, state, stage, one):
                found.append((one, is_over))
    if len(found) != 1:
        return None
    ((one, is_over),) = found
    # The log has no record of this attempt, so the data comes from its own folder.
    record = read_json(one.launch_record) or {}
    rests_on = find_foreign_launch_inputs(
        jobs.root, state, stage, str(one.submission.relative_to(jobs.root))
    )
    moment = datetime.fromtimestamp((read_launch_time(one) or 0) / _SECOND, UTC)
    here = {"root": str(record.get("root", jobs.root)), "host": record.get("host")}
    started = build_start_command(one, Mode.TMUX, **here, boot_id=record.get("boot_id"), **rests_on)
    return UnloggedAttempt(started, utc_text(min(moment, jobs.service.clock())), is_over)


def _can_be_watched(one: AttemptPaths) -> bool:
    """Return whether a new monitor of a running attempt cannot start its jobs a second time."""
    return one.start_claims_folder.exists()


def _has_usable_result(
    root: Path, stage: Stage, one: AttemptPaths, evidence: Evidence, found: Verdict
) -> bool:
    """Return whether a completed attempt has the result that the stage would compute now.

    This is the case if the files that the attempt read were not changed after its launch, its
    outputs were not changed after its end, the log has no newer attempt, and no earlier results
    must be kept.
    """
    newest, began = stage.attempt, read_launch_time(one) or 0
    earlier = parse_time_to_epoch(newest.started_at) if newest is not None else None
    if stage.keep_as is not None or (earlier is not None and began < earlier * _SECOND):
        return False
    if not found.is_uncollected:
        marker = identify_file(one.done_marker)
        if marker is None or not _has_outputs_in_place(evidence, found):
            return False
        # Modification times are compared here. The change times of outputs are newer, because
        # removing the hard links to a file updates its change time.
        written = (file for path in one.outputs for file in _iterate_file_stats(root / path))
        if any(status.st_mtime_ns > marker[2] for status in written):
            return False
    changed = (
        file for path in list_forwarded_files(one) for file in _iterate_file_stats(root / path)
    )
    return all(status.st_ctime_ns <= began for status in changed)


def _iterate_file_stats(place: Path) -> Iterator[os.stat_result]:
    """Yield the file status (`stat`) of a file, or of a folder and of everything below it."""
    entries = [place, *(place.rglob("*") if is_folder(place) else ())]
    yield from (found for found in map(stat_of, entries) if found is not None)


def _is_newer_than_log_and_inputs(
    jobs: JobContext, state: Workflow, stage: Stage, one: AttemptPaths
) -> bool:
    """Return whether an attempt is newer than the log and the inputs of its stage."""
    began = read_launch_time(one)
    since = parse_time_to_epoch(state.created)
    if since is None or not began or began < since * _SECOND:
        return False
    there = (identify_file(jobs.root / path) for path in list_needed_files(state, stage))
    return all(found is None or found[2] <= began for found in there)


def _has_current_definition(
    jobs: JobContext, state: Workflow, stage: Stage, one: AttemptPaths
) -> bool:
    """Return whether the stage would now submit the same job as the attempt did.

    Returns False for sweeps, whose tasks are not compared. If the definition changed after the
    attempt was lost from the log, the attempt is not recorded again.
    """
    if is_sweep(stage.parameters):
        return False
    would_be = replace(one, outputs=tuple(stage.declared_outputs))
    given = build_attempt_submission(
        jobs.root, state, stage, get_stage_submission(jobs.root, state, stage)
    )
    digest = jobs.runner.check(would_be, given)
    return digest == digest_submission(one.submission.read_text("utf-8"))


def build_start_command(attempt: AttemptPaths, mode: Mode, **known: Any) -> p.AttemptStarted:
    """Build the command that records the start of an attempt.

    Values in ``known`` replace the defaults, which describe a start on this host and in this root.
    """
    here = {"root": str(attempt.root), "host": processes.host(), "boot_id": processes.boot_id()}
    return p.AttemptStarted(
        stage=attempt.stage,
        mode=mode.value,
        work_dir=str(attempt.work.relative_to(attempt.root)),
        submission=str(attempt.submission.relative_to(attempt.root)),
        wrapper=str(attempt.wrapper.relative_to(attempt.root)),
        session=attempt.session if mode is Mode.TMUX else None,
        **{**here, **known},
    )


def record_unlogged_job(
    jobs: JobContext, state: Workflow, stage: Stage, options: WriteOptions | None = None
) -> Outcome | None:
    """Record a job of the stage that exists but is not in the log, and return the outcome.

    The job runs or has completed. Returns None if no such job exists.
    """
    by_others = hand_launched_jobs.find_manual_launches(
        jobs.root, state, [stage] if stage.open_attempt is None else []
    )
    if by_others:
        return hand_launched_jobs.record_manual_launch(jobs, state, stage, by_others[0], options)
    found = _find_unlogged_attempt(jobs, state, stage)
    if found is None:
        return None
    outcome = jobs.record_each((found.started, found.since), options=options)
    beside = "is running but was missing from the log; wfctl records it again and computes nothing "
    over = "has ended but was missing from the log; wfctl uses its result and computes nothing "
    jobs.say(
        f"{stage.id}: {found.started.work_dir.rpartition('/')[0]} was started in this root, "
        f"{f'{over}again' if found.is_over else f'{beside}in addition'}",
        level="warning",
        stage=stage.id,
    )
    return outcome


def record_unlogged_jobs(jobs: JobContext, state: Workflow) -> Workflow:
    """Record all jobs that exist but are not in the log, and return the new state.

    Prints a warning for each job that the rules do not allow to record.
    """
    free = [
        stage for stage in state.stages.values() if hand_launched_jobs.may_have_manual_job(stage)
    ]
    ids = {job.stage for job in hand_launched_jobs.find_manual_launches(jobs.root, state, free)}
    ids |= {stage.id for stage in free if any(_find_unlogged_attempts(jobs, state, stage))}
    for id_ in [id_ for id_ in state.stages if id_ in ids]:
        try:
            with jobs.lock_stage(id_):
                state = jobs.service.state()
                record_unlogged_job(jobs, state, state.stage(id_))
        except LifecycleError as error:
            text = f"{id_}: wfctl cannot record the job that runs for this stage: {error.message}"
            jobs.say(text, level="warning", stage=id_)
    return jobs.service.state() if ids else state
