"""The table from which the verdict on an attempt is derived, using only the evidence.

A verdict names the situation of the attempt and the action to take. The first row of the table that
matches the evidence decides. The row numbers are those of the published evidence table. A row that
uses an attempt's own records has the number of the row that it makes more precise.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from reconciler.attempt.markers import MarkerState
from reconciler.attempt.paths import KILLED, SIGNALLED, ScriptEnd
from reconciler.evidence.evidence import Evidence, ForeignLaunch, Presence
from reconciler.host.scheduler_jobs import EXCEEDED, TAKEN
from service.root.atomic_files import utc_text


class Situation(StrEnum):
    """Names of the situations that an attempt may be in."""

    ELSEWHERE = "ELSEWHERE"
    ORPHAN_DIR_DELETED = "ORPHAN_DIR_DELETED"
    MONITOR_STOPPED = "MONITOR_STOPPED"
    MONITORED = "MONITORED"
    UNKNOWN = "UNKNOWN"
    RUNS_ON_AFTER_MOVE = "RUNS_ON_AFTER_MOVE"
    RUNS_UNWATCHED = "RUNS_UNWATCHED"
    ORPHAN_RUNNING = "ORPHAN_RUNNING"
    ORPHAN_RUNNING_UNRECORDED = "ORPHAN_RUNNING_UNRECORDED"
    ASKED_THROUGH_DPDISPATCHER = "ASKED_THROUGH_DPDISPATCHER"
    JOB_TAKEN = "JOB_TAKEN"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    TASK_FAILED = "TASK_FAILED"
    JOB_KILLED = "JOB_KILLED"
    UNTOLD = "UNTOLD"
    SUCCEEDED = "SUCCEEDED"
    OUTPUT_MISSING = "OUTPUT_MISSING"
    COLLECTED_UNMARKED = "COLLECTED_UNMARKED"
    FINISHED_NOT_COLLECTED = "FINISHED_NOT_COLLECTED"
    RESULTS_LOST = "RESULTS_LOST"
    VANISHED = "VANISHED"
    UNSEEN = "UNSEEN"
    FORGOTTEN = "FORGOTTEN"
    NEVER_RAN = "NEVER_RAN"
    PURGED = "PURGED"
    JOB_LOST = "JOB_LOST"
    LEFT_BEHIND = "LEFT_BEHIND"
    REJECTED = "REJECTED"
    LAUNCHED_IN_VAIN = "LAUNCHED_IN_VAIN"
    MONITOR_KILLED_EARLY = "MONITOR_KILLED_EARLY"
    NEVER_SUBMITTED = "NEVER_SUBMITTED"
    NEVER_STARTED = "NEVER_STARTED"
    UNDECIDED = "UNDECIDED"
    SESSION_ALIVE = "SESSION_ALIVE"
    STALE = "STALE"
    FIRST_TASKS_DONE = "FIRST_TASKS_DONE"
    TASKS_REMAIN = "TASKS_REMAIN"
    TASKS_DONE = "TASKS_DONE"
    TASKS_FAILED = "TASKS_FAILED"
    MACHINE_REFUSED = "MACHINE_REFUSED"
    UNREADABLE = "UNREADABLE"
    HINDERED = "HINDERED"


#: Verdicts on an attempt of a sweep that follow from its tasks, not from its jobs.
OF_TASKS = frozenset(
    {
        Situation.FIRST_TASKS_DONE,
        Situation.TASKS_REMAIN,
        Situation.TASKS_DONE,
        Situation.TASKS_FAILED,
    }
)
#: Verdicts which mean that no task of the attempt was started.
_NEVER_BEGAN = frozenset(
    {Situation.REJECTED, Situation.LAUNCHED_IN_VAIN, Situation.ORPHAN_DIR_DELETED}
)
#: State numbers with which DPDispatcher marks a job that its scheduler has ended or no longer
#: knows.
_STATES_GONE = (4, 7)

#: Verdicts on a job that the scheduler no longer lists.
_DOUBTFUL = frozenset({Situation.VANISHED, Situation.UNSEEN, Situation.FORGOTTEN})

#: Reason of a verdict if the folder for the jobs of an attempt cannot be created.
_NO_FOLDER = "no job can be submitted to the machine of the stage"

#: Maximum number of processes that the reason of a verdict names.
_NAMED = 5

#: The type of the evidence that the rows of a table examine.
E = TypeVar("E")


class Action(StrEnum):
    """The actions that may follow from a verdict on an attempt."""

    WAIT = "wait"
    ATTACH = "attach"
    LAUNCH = "launch"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    CONTINUE = "continue"
    UNKNOWN = "unknown"


#: Actions that end an attempt or start a job.
_FINAL = frozenset({Action.LAUNCH, Action.FAILED, Action.LOST, Action.CONTINUE})


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on an attempt: its situation, the action to take, and the reason.

    It is taken from the first row of the table that matches the evidence. ``occurred_at`` is the
    recorded end of the last job (ISO 8601, UTC). ``stop`` contains the ids of processes that must
    be stopped before another attempt may start.
    """

    row: int
    name: Situation
    action: Action
    reason: str
    occurred_at: str | None = None
    stop: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        return {**asdict(self), "name": str(self.name), "stop": list(self.stop)}

    @property
    def is_over(self) -> bool:
        """Return whether the attempt has ended, so that nothing of it runs any more."""
        return self.action in (Action.SUCCEEDED, Action.FAILED, Action.LOST, Action.CONTINUE)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the attempt was started in another root or on another host."""
        return self.name == Situation.ELSEWHERE

    @property
    def is_folder_refused(self) -> bool:
        """Return whether the machine of the jobs answered but cannot create their folder."""
        return self.name == Situation.MACHINE_REFUSED and self.reason.startswith(_NO_FOLDER)

    @property
    def needs_second_look(self) -> bool:
        """Return whether a missing job or file may still appear.

        A second check some seconds later then decides.
        """
        return self.name == Situation.VANISHED

    @property
    def is_uncollected(self) -> bool:
        """Return whether the jobs succeeded but their results were not downloaded yet."""
        return self.name == Situation.FINISHED_NOT_COLLECTED

    @property
    def has_doubtful_outputs(self) -> bool:
        """Return whether the outputs exist but may be incomplete.

        A person must then decide.
        """
        return self.name == Situation.UNTOLD

    @property
    def is_derived_from_tasks(self) -> bool:
        """Return whether the verdict follows from the tasks of a sweep, not from the jobs."""
        return self.name in OF_TASKS

    @property
    def is_failed_command(self) -> bool:
        """Return whether the command itself failed.

        In this case, the output of the command shows the cause.
        """
        return self.name == Situation.TASK_FAILED

    @property
    def is_killed_job(self) -> bool:
        """Return whether SIGKILL ended the command, often because memory ran out."""
        return self.name == Situation.JOB_KILLED

    @property
    def has_possibly_started(self) -> bool:
        """Return whether a task of the attempt may have started."""
        return self.name not in _NEVER_BEGAN


Rows: TypeAlias = tuple[tuple[tuple[int, Situation, Action], Callable[[E], bool], str], ...]
"""A table of verdicts, their conditions and their reasons. The first matching row decides."""


def find_first_matching_row(rows: Rows[E], seen: E) -> Verdict:
    """Return the verdict of the first row whose condition is true for ``seen``."""
    return next(Verdict(*what, reason) for what, holds, reason in rows if holds(seen))


def unreadable_verdict(reason: str) -> Verdict:
    """Return the verdict on an attempt with a file that is damaged or cannot be read."""
    return Verdict(2, Situation.UNREADABLE, Action.UNKNOWN, reason)


def hindered_verdict(reason: str) -> Verdict:
    """Return the verdict on an attempt whose next step was refused or failed.

    ``reason`` explains why.
    """
    return Verdict(2, Situation.HINDERED, Action.UNKNOWN, reason)


def is_hindered(name: str | None) -> bool:
    """Return whether a recorded verdict means that the next step was refused or failed."""
    return name == Situation.HINDERED


def derive_verdict(evidence: Evidence) -> Verdict:
    """Return the verdict on an attempt: the first row of the table that matches."""
    found = find_first_matching_row(TABLE, evidence)
    launch = evidence.foreign_launch
    if launch is not None:
        return replace(found, reason=found.reason.format(**_values_for_reason(evidence, launch)))
    ends = [job.ended_at for job in evidence.jobs if job.ended_at is not None]
    ended = datetime.fromtimestamp(max(ends) // 1000 / 1e6, UTC) if ends else None
    return replace(
        found,
        reason=f"{found.reason}{_circumstances(found, evidence)}",
        occurred_at=None if ended is None else utc_text(ended),
        stop=_find_processes_without_folder(evidence) if found.row == 0 else (),
    )


def needs_fresh_answer(e: Evidence, found: Verdict) -> bool:
    """Return whether the scheduler must be asked again before the verdict is used.

    A reused answer may be older than a job or its end. It is sufficient only for a verdict that
    leaves everything as it is, or that rests on the records of the jobs.
    """
    if e.queue is None or not e.queue.is_reused or _is_monitored(e):
        return False
    # A job that a signal ended has an end in the scheduler, which forgets it after some time.
    is_signalled = any(
        job.exit_code is not None and not job.has_unknown_command_result for job in e.open_jobs
    )
    return is_signalled or found.action in _FINAL or found.name in _DOUBTFUL


def _circumstances(found: Verdict, e: Evidence) -> str:
    """Return a text to add to the reason of a verdict, or an empty string.

    It is the refusal of the machine, or names the processes that an ended command left running.
    wfctl waits for these processes if outputs of the command are still missing.
    """
    if found.name == Situation.MACHINE_REFUSED:
        return f": {e.refusal}"
    if found.action in (Action.WAIT, Action.ATTACH) and e.awaited:
        named = ", ".join(e.awaited[:_NAMED])
        return (
            f"; its command succeeded, but some outputs are still missing: wfctl waits for {named}"
        )
    if found.name == Situation.SUCCEEDED and e.tenants:
        named = ", ".join(f"process {one.pid}" for one in e.tenants[:_NAMED])
        return f"; processes that it started are still running: {named}"
    return ""


def _exit_code(e: Evidence) -> int | None:
    """Return the monitor's exit code, or None if its marker belongs to another attempt."""
    return e.exit_marker.code if e.exit_marker.seen is MarkerState.OWN else None


def _has_monitor_failed(e: Evidence) -> bool:
    code = _exit_code(e)
    return code is not None and 0 < code <= SIGNALLED and code != ScriptEnd.SILENT


def is_ended_by_full_disk(e: Evidence) -> bool:
    """Return whether the monitor ended because the disk was full."""
    return _exit_code(e) == ScriptEnd.NO_ROOM


def _all_finished(e: Evidence) -> bool:
    return bool(e.jobs) and all(job.is_finished for job in e.jobs)


def _all_recorded_success(e: Evidence) -> bool:
    return bool(e.jobs) and all(job.exit_code == 0 for job in e.jobs)


def _find_processes_without_folder(e: Evidence) -> tuple[int, ...]:
    return tuple(tenant.pid for tenant in e.tenants or () if tenant.deleted)


def _is_elsewhere(e: Evidence) -> bool:
    known = ((e.root_recorded, e.root_now), (e.host_recorded, e.host_now))
    return any(recorded not in (None, now) for recorded, now in known)


def _is_monitored(e: Evidence) -> bool:
    if e.monitor_locked is None:
        return e.monitor_alive is True
    # If the session exists but the monitor has no record yet, the monitor is just starting.
    return e.monitor_locked or (e.session is True and e.monitor_alive is None)


def _lacks_an_answer(e: Evidence) -> bool:
    if e.far is not None and e.far.error is not None:
        return True
    if e.scheduler is None:
        locks = [job.lock_held for job in e.open_jobs]
        return e.monitor_locked is None or e.tenants is None or None in locks
    # Locks may not work on a cluster file system, so they are not required here. The answer of the
    # scheduler is needed only while a job may still run.
    silent = e.queue is not None and e.queue.listed is None
    return e.monitor_locked is None or (silent and _is_possibly_unfinished(e))


def _is_possibly_unfinished(e: Evidence) -> bool:
    return bool(e.open_jobs) or not e.jobs


def has_running_or_queued_job(e: Evidence) -> bool:
    """Return whether a job of the attempt runs or waits.

    Processes that an ended job left running do not count.
    """
    if any(job.lock_held or job.id_alive for job in e.open_jobs):
        return True
    # The list contains the jobs that work in the attempt's folder, so a job counts even if its id
    # is not known.
    listed = e.queue.listed if e.queue is not None else None
    queued = any(one.is_alive for one in listed or ())
    return (bool(e.tenants) or queued) and _is_possibly_unfinished(e)


def _needs_dpdispatcher_query(e: Evidence) -> bool:
    """Return whether the state of a job can be found out only through DPDispatcher.

    This is the case for schedulers that wfctl cannot query itself, unless DPDispatcher has already
    reported that the job is gone.
    """
    asked = [job for job in e.open_jobs if job.state not in _STATES_GONE]
    return e.scheduler is not None and e.queue is None and bool(asked)


def _is_ended_by_scheduler(e: Evidence, states: AbstractSet[str]) -> bool:
    # If the results are already in place, a later failure of the job does not matter.
    return not _has_succeeded(e) and any(
        job.queued in states and job.exit_code != 0 for job in e.jobs
    )


def _outputs_are_there(e: Evidence) -> bool:
    return all(o.presence is not Presence.MISSING and o.new is not False for o in e.outputs)


def _has_succeeded(e: Evidence) -> bool:
    return _exit_code(e) == 0 and _outputs_are_there(e)


def _is_collected_unmarked(e: Evidence) -> bool:
    if e.launched_at is None:
        # The attempt was never launched, so the existing outputs are from an earlier attempt.
        return False
    if not _outputs_are_there(e) or not (e.outputs or _all_recorded_success(e)):
        return False
    if _all_recorded_success(e) and _has_monitor_failed(e) and e.outputs:
        # A monitor was killed while it cleaned up. The messages of the monitors after it do not
        # matter, because the results are complete.
        return True
    return not e.copies and (_exit_code(e) is None or _all_recorded_success(e))


def _should_person_judge(e: Evidence) -> bool:
    """Return whether a person must decide if the existing outputs are complete.

    This is the case if the end of a command was not recorded and no check verifies the outputs.
    """
    there = _has_succeeded(e) or _is_collected_unmarked(e)
    return there and not e.verifiable and any(job.has_unknown_command_result for job in e.jobs)


def is_uncollected(e: Evidence) -> bool:
    """Return whether all jobs succeeded but their results were not downloaded yet."""
    return _all_finished(e) and bool(e.copies)


def _can_job_run_unseen(e: Evidence) -> bool:
    """Return whether a started job may still run although no source shows it.

    The scheduler no longer lists the job, and no lock shows whether it has ended.
    """
    jobs = [job for job in e.open_jobs if job.exit_code is None and job.queued is None]
    return e.scheduler is not None and any(job.started and job.lock_held is None for job in jobs)


def is_remote_folder_missing(e: Evidence) -> bool:
    """Return whether the remote machine answered that the attempt's folder does not exist."""
    return e.far is not None and e.far.is_folder_missing


def _may_have_unrecorded_job(e: Evidence) -> bool:
    """Return whether a job may have been submitted whose folder was removed before it was recorded.

    A monitor that failed has recorded that the submission was refused.
    """
    return e.submission_tried and not e.jobs and not _has_monitor_failed(e)


def _has_only_unstarted_jobs(e: Evidence) -> bool:
    """Return whether all missing jobs were still waiting when they were last seen.

    They waited in the queue, and no scheduler has reported how they ended.
    """
    waited = [not job.started and job.queued is None for job in e.open_jobs]
    return e.scheduler is not None and bool(waited) and all(waited)


#: Rows of the table for an attempt that wfctl launched.
OWN_ROWS: Rows[Evidence] = (
    (
        (2, Situation.ELSEWHERE, Action.UNKNOWN),
        _is_elsewhere,
        "the attempt was launched in another root folder or on another host",
    ),
    (
        (0, Situation.ORPHAN_DIR_DELETED, Action.LOST),
        lambda e: bool(_find_processes_without_folder(e)) and _is_possibly_unfinished(e),
        "the folder of the attempt was deleted while the attempt was running",
    ),
    (
        (1, Situation.MONITOR_STOPPED, Action.WAIT),
        lambda e: e.monitor_stopped and _is_monitored(e),
        (
            "the monitor of the attempt is paused (SIGSTOP) and collects no results. "
            "Continue it with `kill -CONT PID`; monitor.json contains the PID. If the "
            "monitor is killed, wfctl starts a new one"
        ),
    ),
    ((1, Situation.MONITORED, Action.WAIT), _is_monitored, "a monitor watches the attempt"),
    (
        (2, Situation.MACHINE_REFUSED, Action.UNKNOWN),
        lambda e: e.far is not None and e.far.error is not None and e.refusal is not None,
        "the machine of its jobs refuses the connection",
    ),
    (
        (2, Situation.UNKNOWN, Action.UNKNOWN),
        _lacks_an_answer,
        "the locks or processes of the attempt could not be checked",
    ),
    (
        (3, Situation.RUNS_ON_AFTER_MOVE, Action.WAIT),
        lambda e: e.moved and has_running_or_queued_job(e),
        ("the job has been running since before the root was moved, so no monitor can be attached"),
    ),
    (
        (3, Situation.RUNS_UNWATCHED, Action.WAIT),
        lambda e: e.in_vain and _has_monitor_failed(e) and has_running_or_queued_job(e),
        (
            "the job is running; its monitors exit immediately, so wfctl checks for its end "
            "without a monitor"
        ),
    ),
    (
        (3, Situation.ORPHAN_RUNNING, Action.ATTACH),
        lambda e: has_running_or_queued_job(e) and e.recovery_file,
        "the job is running without a monitor",
    ),
    (
        (4, Situation.ORPHAN_RUNNING_UNRECORDED, Action.ATTACH),
        has_running_or_queued_job,
        "the job is running, but DPDispatcher does not know it",
    ),
    (
        (3, Situation.ASKED_THROUGH_DPDISPATCHER, Action.ATTACH),
        _needs_dpdispatcher_query,
        "only DPDispatcher can query the scheduler of the job",
    ),
    (
        (9, Situation.JOB_TAKEN, Action.LOST),
        lambda e: _is_ended_by_scheduler(e, TAKEN),
        "the scheduler ended the job for a reason outside the job",
    ),
    (
        (8, Situation.LIMIT_EXCEEDED, Action.FAILED),
        lambda e: _is_ended_by_scheduler(e, EXCEEDED),
        "the job used more time or memory than requested",
    ),
    (
        (8, Situation.TASK_FAILED, Action.FAILED),
        lambda e: any(job.is_over and job.exit_code != 0 for job in e.jobs),
        "a job recorded that its task failed",
    ),
    (
        (9, Situation.JOB_KILLED, Action.LOST),
        lambda e: any(
            job.exit_code == KILLED and not job.has_unknown_command_result for job in e.jobs
        ),
        "a signal from outside (SIGKILL) ended the command",
    ),
    (
        (7, Situation.UNTOLD, Action.UNKNOWN),
        _should_person_judge,
        (
            "the shells of the job were killed, but its command continued: the outputs "
            "exist, and nothing shows whether the command succeeded. Check the outputs. If "
            "they are right, run `wfctl stage compute`; if not, `wfctl stage fail` and "
            "`wfctl stage retry`"
        ),
    ),
    (
        (7, Situation.SUCCEEDED, Action.SUCCEEDED),
        _has_succeeded,
        "the results are collected, the exit code is 0, and all outputs exist",
    ),
    (
        (6, Situation.OUTPUT_MISSING, Action.FAILED),
        lambda e: _exit_code(e) == 0,
        "the job ended with exit code 0, but an output is missing",
    ),
    (
        (10, Situation.COLLECTED_UNMARKED, Action.SUCCEEDED),
        _is_collected_unmarked,
        "the results are collected, but the monitor died before recording the end",
    ),
    (
        (6, Situation.OUTPUT_MISSING, Action.FAILED),
        lambda e: is_uncollected(e) and _has_monitor_failed(e) and bool(e.backward_missing),
        "the job did not write a file that wfctl should download",
    ),
    (
        (5, Situation.FINISHED_NOT_COLLECTED, Action.ATTACH),
        is_uncollected,
        "the job has ended, and its results are not collected yet",
    ),
    (
        (9, Situation.RESULTS_LOST, Action.LOST),
        lambda e: _all_finished(e) and not e.copies,
        "the job succeeded, but its folder and outputs no longer exist",
    ),
    (
        (8, Situation.TASK_FAILED, Action.FAILED),
        lambda e: any(
            job.failed_flag and not (e.scheduler is not None and (job.exit_code or 0) > SIGNALLED)
            for job in e.open_jobs
        ),
        "DPDispatcher recorded that a task failed",
    ),
    (
        (9, Situation.VANISHED, Action.UNKNOWN),
        lambda e: (
            (e.scheduler or e.far) is not None
            and not e.looked_twice
            and (bool(e.open_jobs) or _may_have_unrecorded_job(e))
        ),
        (
            "the scheduler no longer lists the job, and the job recorded no end; wfctl checks "
            "its records once more"
        ),
    ),
    (
        (9, Situation.UNSEEN, Action.UNKNOWN),
        lambda e: _may_have_unrecorded_job(e) and e.scheduler is not None and e.queue is None,
        (
            "the folder of the attempt was removed from the machine where its jobs run before the "
            "id of a job was recorded, and wfctl cannot list the jobs of this scheduler"
        ),
    ),
    (
        (9, Situation.PURGED, Action.LOST),
        lambda e: (bool(e.jobs) and is_remote_folder_missing(e)) or _may_have_unrecorded_job(e),
        (
            "the folder of the attempt was removed from the machine where its jobs run, and "
            "none of its processes or jobs is running"
        ),
    ),
    (
        (9, Situation.UNSEEN, Action.UNKNOWN),
        _can_job_run_unseen,
        (
            "the scheduler no longer lists the job, and no lock shows whether the job is still "
            "running"
        ),
    ),
    (
        (9, Situation.FORGOTTEN, Action.UNKNOWN),
        lambda e: _has_only_unstarted_jobs(e) and e.last_chance,
        "the job was queued and is no longer listed, like the job of the attempt before it",
    ),
    (
        (9, Situation.NEVER_RAN, Action.LOST),
        _has_only_unstarted_jobs,
        "the job was queued, and the scheduler no longer lists it",
    ),
    (
        (9, Situation.JOB_LOST, Action.LOST),
        lambda e: any(job.has_unknown_command_result for job in e.open_jobs),
        (
            "the shells of the job were killed; its command continued, but ended before it "
            "wrote every file to download"
        ),
    ),
    (
        (9, Situation.JOB_LOST, Action.LOST),
        lambda e: bool(e.open_jobs),
        "the job ended without recording an exit code",
    ),
    (
        (9, Situation.LEFT_BEHIND, Action.LOST),
        lambda e: e.moved and not e.jobs and not _has_monitor_failed(e),
        "nothing was started, and the files of the attempt name a former root or remote_root",
    ),
    (
        (2, Situation.MACHINE_REFUSED, Action.UNKNOWN),
        lambda e: not e.jobs and e.refusal is not None,
        _NO_FOLDER,
    ),
    (
        (14, Situation.LAUNCHED_IN_VAIN, Action.FAILED),
        lambda e: not e.jobs and e.in_vain and _exit_code(e) == ScriptEnd.BROKEN,
        "the monitors of the attempt failed repeatedly before a job was submitted",
    ),
    (
        (12, Situation.NEVER_SUBMITTED, Action.LAUNCH),
        lambda e: not e.jobs and _exit_code(e) == ScriptEnd.BROKEN,
        "the monitor of the attempt failed before a job was submitted",
    ),
    (
        (12, Situation.NEVER_SUBMITTED, Action.LAUNCH),
        lambda e: not e.jobs and is_ended_by_full_disk(e),
        "no room was left for the files of the attempt before a job was submitted",
    ),
    (
        (14, Situation.REJECTED, Action.FAILED),
        lambda e: not e.jobs and _has_monitor_failed(e),
        "DPDispatcher refused the submission",
    ),
    (
        (13, Situation.MONITOR_KILLED_EARLY, Action.LAUNCH),
        lambda e: not e.jobs and not e.copies and (_exit_code(e) or 0) > SIGNALLED,
        "the monitor was killed before it submitted a job",
    ),
    (
        (12, Situation.NEVER_SUBMITTED, Action.LAUNCH),
        lambda e: not e.jobs and bool(e.copies) and _exit_code(e) == ScriptEnd.SILENT,
        (
            "the connection to the machine was closed, or the machine did not answer, before a "
            "job was submitted"
        ),
    ),
    (
        (12, Situation.NEVER_SUBMITTED, Action.LAUNCH),
        lambda e: not e.jobs and bool(e.copies),
        "a folder was created, but no job was submitted",
    ),
    (
        (11, Situation.NEVER_STARTED, Action.LAUNCH),
        lambda e: not e.jobs and not e.copies,
        "nothing was started",
    ),
    ((2, Situation.UNDECIDED, Action.UNKNOWN), lambda _: True, "no rule matches the evidence"),
)


def _has_both_markers(e: Evidence) -> bool:
    return e.done_marker.seen is MarkerState.OWN and _exit_code(e) is not None


def _missing_outputs(e: Evidence) -> list[str]:
    return [output.path for output in e.outputs if output.presence is Presence.MISSING]


def _can_be_watched(e: Evidence) -> bool:
    """Return whether a new monitor would find the existing jobs and submit none again."""
    return e.recovery_file and e.session is not None and not e.in_vain


def _can_be_collected(e: Evidence) -> bool:
    """Return whether the jobs succeeded and DPDispatcher can still collect their results."""
    return is_uncollected(e) and not (_exit_code(e) and e.backward_missing)


def _values_for_reason(e: Evidence, launch: ForeignLaunch) -> dict[str, Any]:
    """Return values for the placeholders in the reasons of `FOREIGN_ROWS`."""
    why = " on the cluster" if launch.why_unknown is None else f" ({launch.why_unknown})"
    stage = e.attempt.split("/")[-2]
    missing = ", ".join(_missing_outputs(e))
    return {"stage": stage, "code": _exit_code(e), "missing": missing, "why": why}


#: Rows of the table for an attempt that a person launched or that was imported.
FOREIGN_ROWS: Rows[Evidence] = (
    (
        (20, Situation.ELSEWHERE, Action.UNKNOWN),
        lambda e: e.root_recorded != e.root_now,
        "the attempt runs in the folder from which the workflow was imported",
    ),
    (
        (21, Situation.SESSION_ALIVE, Action.WAIT),
        lambda e: bool(e.session),
        "the tmux session of the attempt is running",
    ),
    (
        (21, Situation.MONITORED, Action.WAIT),
        lambda e: bool(e.monitor_alive),
        "DPDispatcher watches the attempt outside of its tmux session",
    ),
    (
        (26, Situation.ORPHAN_RUNNING, Action.ATTACH),
        lambda e: has_running_or_queued_job(e) and _can_be_watched(e),
        "the tmux session has ended, and the job is running without a monitor",
    ),
    (
        (26, Situation.RUNS_UNWATCHED, Action.WAIT),
        has_running_or_queued_job,
        (
            "the tmux session has ended, and the job is running; no monitor is attached, because "
            "DPDispatcher would submit the job again"
        ),
    ),
    (
        (23, Situation.OUTPUT_MISSING, Action.FAILED),
        lambda e: _has_both_markers(e) and _exit_code(e) == 0 and bool(_missing_outputs(e)),
        "exit code 0, but {missing} is missing",
    ),
    (
        (22, Situation.SUCCEEDED, Action.SUCCEEDED),
        lambda e: _has_both_markers(e) and _exit_code(e) == 0,
        "the exit code is 0, and all outputs exist",
    ),
    (
        (25, Situation.UNKNOWN, Action.UNKNOWN),
        lambda e: e.missing_answer_reason is not None and bool(e.copies),
        "the scheduler gave no answer",
    ),
    (
        (27, Situation.FINISHED_NOT_COLLECTED, Action.UNKNOWN),
        lambda e: _can_be_collected(e) and e.in_vain,
        (
            "the jobs succeeded, but the monitors exit without collecting the results. Run "
            "the wrapper script by hand to see its messages"
        ),
    ),
    (
        (27, Situation.FINISHED_NOT_COLLECTED, Action.ATTACH),
        lambda e: _can_be_collected(e) and e.session is not None,
        "the jobs succeeded, and their results are still in DPDispatcher's folder",
    ),
    (
        (23, Situation.TASK_FAILED, Action.FAILED),
        _has_both_markers,
        "the wrapper script ended with exit code {code}",
    ),
    (
        (28, Situation.TASK_FAILED, Action.FAILED),
        lambda e: any(job.failed_flag for job in e.open_jobs),
        "DPDispatcher's folder records that a task failed",
    ),
    (
        (9, Situation.VANISHED, Action.UNKNOWN),
        lambda e: e.scheduler is not None and bool(e.open_jobs) and not e.looked_twice,
        "the scheduler does not list the job; wfctl checks its records once more",
    ),
    (
        (28, Situation.JOB_LOST, Action.FAILED),
        lambda e: bool(e.open_jobs),
        "the tmux session has ended, and the job ended without recording a result",
    ),
    (
        (25, Situation.UNKNOWN, Action.UNKNOWN),
        lambda e: e.session is None,
        "tmux is not installed here, so wfctl cannot check for the session",
    ),
    (
        (25, Situation.UNKNOWN, Action.UNKNOWN),
        lambda e: (
            e.foreign_launch is not None
            and (e.foreign_launch.on_a_cluster or e.foreign_launch.why_unknown is not None)
        ),
        (
            "the tmux session has ended without a marker file, and a job may still be "
            "running{why}. Check there, then run `wfctl stage compute {stage}` or `wfctl "
            "stage fail {stage} --error TEXT`"
        ),
    ),
    (
        (24, Situation.STALE, Action.FAILED),
        lambda _: True,
        (
            "the attempt is older than the import: its tmux session has ended without a "
            "marker file, and DPDispatcher's folder contains no job of it"
        ),
    ),
)


def _if_foreign(holds: Callable[[Evidence], bool]) -> Callable[[Evidence], bool]:
    """Return a condition that is true only for attempts that wfctl did not launch.

    For such an attempt, the given condition must be true too.
    """
    return lambda e: e.foreign_launch is not None and holds(e)


TABLE: Rows[Evidence] = (
    *((what, _if_foreign(holds), reason) for what, holds, reason in FOREIGN_ROWS),
    *OWN_ROWS,
)


#: Verdicts that are certain even if the root or the host of the attempt has changed.
_DECIDED = (
    *(Situation.MONITORED, Situation.MONITOR_STOPPED, Situation.SUCCEEDED),
    *(Situation.COLLECTED_UNMARKED, Situation.TASK_FAILED),
)


def verdict_after_move(evidence: Evidence) -> tuple[Evidence, Verdict]:
    """Return evidence and verdict on an attempt whose root was moved or host renamed.

    If the evidence in this root and on this host is sufficient, the returned evidence names this
    root and this host. Otherwise the verdict states that the attempt belongs elsewhere.
    """
    seen, here = _can_see_running_jobs(evidence), _relocate_evidence_here(evidence)
    found = derive_verdict(here)
    if found.is_uncollected:
        # The own records of the jobs show their end, so the result is certain after a move too.
        return replace(here, moved=True), found
    # These verdicts are final only if running jobs would be visible from here. A vanished job is
    # checked a second time.
    known = found.name in (Situation.LIMIT_EXCEEDED, Situation.VANISHED)
    to_be_done = known or found.action in (Action.WAIT, Action.LOST)
    if found.name in _DECIDED or (seen and to_be_done):
        return here, found
    return evidence, derive_verdict(evidence)


def verdict_on_unlogged_attempt(evidence: Evidence) -> tuple[Evidence, Verdict]:
    """Return evidence and verdict on an attempt that is not in the log.

    The log cannot show when such an attempt wrote its outputs. Its end is therefore accepted even
    if the files of a copied root are too new to prove it.
    """
    found = verdict_after_move(evidence)
    here = _relocate_evidence_here(evidence)
    if found[1].is_elsewhere and _can_see_running_jobs(evidence) and derive_verdict(here).is_over:
        return here, derive_verdict(here)
    return found


def _relocate_evidence_here(evidence: Evidence) -> Evidence:
    """Return the evidence as if the attempt had been started in this root on this host."""
    return replace(
        evidence,
        root_recorded=evidence.root_now,
        host_recorded=evidence.host_now,
        moved=_can_see_running_jobs(evidence),
        foreign_launch=None,
    )


def _can_see_running_jobs(evidence: Evidence) -> bool:
    """Return whether this host would see a job of the attempt that is still running."""
    if evidence.far is not None:
        return evidence.far.error is None
    here = evidence.host_recorded in (None, evidence.host_now)
    answers = evidence.queue is not None and evidence.queue.listed is not None
    return here and (evidence.scheduler is None or answers)


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The number of tasks of an ended attempt, by result.

    ``left`` is the number of tasks that must still be computed, and ``untold`` the number of tasks
    that a person must judge. ``tolerated`` is the number of tasks that may fail. ``first`` is the
    number of tasks that had to succeed before the ``others`` start, and ``first_failed`` names
    those of them that failed. ``short`` is the number of tasks that the next attempt computes with
    more resources. ``why_failed``, ``why_short`` and ``why_untold`` are sentences for the reason of
    the verdict.
    """

    total: int
    done: int
    left: int
    failed: int
    untold: int
    tolerated: float
    first: int
    first_failed: str
    others: int
    short: int
    why_short: str
    why_failed: str
    why_untold: str


#: Rows of the table for an ended attempt of a sweep, decided by its tasks.
TASK_ROWS: Rows[TaskCounts] = (
    (
        (8, Situation.TASKS_FAILED, Action.FAILED),
        lambda tasks: bool(tasks.first_failed),
        "{why_failed}; {first_failed} failed, so {others:,} tasks were not started",
    ),
    (
        (8, Situation.TASKS_FAILED, Action.FAILED),
        lambda tasks: tasks.short > 0 and tasks.untold == 0,
        "{why_short}; {short:,} of {total:,} tasks need more resources",
    ),
    (
        (9, Situation.TASKS_REMAIN, Action.LOST),
        lambda tasks: tasks.left > 0,
        "{done:,} of {total:,} tasks are done, and {left:,} must still be computed: {jobs}",
    ),
    (
        (7, Situation.UNTOLD, Action.UNKNOWN),
        lambda tasks: tasks.untold > 0,
        "{done:,} of {total:,} tasks are done; {why_untold}",
    ),
    (
        (9, Situation.FIRST_TASKS_DONE, Action.CONTINUE),
        lambda tasks: tasks.others > 0,
        "the first tasks ({first:,} of {total:,}) succeeded, so the others ({others:,}) can start",
    ),
    (
        (7, Situation.TASKS_DONE, Action.SUCCEEDED),
        lambda tasks: tasks.failed == 0,
        "{done:,} of {total:,} tasks are done",
    ),
    (
        (7, Situation.TASKS_DONE, Action.SUCCEEDED),
        lambda tasks: tasks.failed <= tasks.tolerated,
        "{done:,} of {total:,} tasks are done, {failed:,} failed, which the plan tolerates",
    ),
    (
        (8, Situation.TASKS_FAILED, Action.FAILED),
        lambda _: True,
        "{why_failed}; {failed:,} of {total:,} tasks failed",
    ),
)


def verdict_of_tasks(of_jobs: Verdict, tasks: TaskCounts) -> Verdict:
    """Return the verdict on an attempt of a sweep, decided by its tasks.

    ``of_jobs`` is the verdict on its jobs, from which the other fields are taken.
    """
    found = find_first_matching_row(TASK_ROWS, tasks)
    reason = found.reason.format(**asdict(tasks), jobs=of_jobs.reason)
    return replace(of_jobs, row=found.row, name=found.name, action=found.action, reason=reason)
