"""The verdict: what is so, and what to do about it, from the evidence alone.

The rows of the table are tried from the top and the first that holds decides. Their numbers are
those of the published evidence table; a row that takes up an attempt's own records carries the
number of the row it strengthens.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from reconciler.attempt.contract import KILLED, SIGNALLED, ScriptEnd
from reconciler.attempt.markers import SeenMarker
from reconciler.attempt.observed import ObservedJob
from reconciler.evidence import outlived
from reconciler.evidence.collect import Evidence, Presence
from reconciler.host.program import EXCEEDED, TAKEN
from reconciler.verdict.names import Name

#: The verdicts that the tasks of an attempt come to, whatever became of its jobs.
OF_TASKS = frozenset({Name.TASKS_REMAIN, Name.TASKS_DONE, Name.TASKS_FAILED})
#: DPDispatcher's words for a job that its scheduler has ended with, or knows nothing of.
_STATES_GONE = (4, 7)

#: Processes that a reason names.
_NAMED = 5

#: What a row is tried on.
E = TypeVar("E")


class Action(StrEnum):
    """What to do with an attempt."""

    WAIT = "wait"
    ATTACH = "attach"
    LAUNCH = "launch"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The row that decided.

    ``occurred_at`` is when the last job ended by its own record (ISO 8601, UTC), ``stop`` the
    processes to end before another attempt may begin.
    """

    row: int
    name: Name
    action: Action
    reason: str
    occurred_at: str | None = None
    stop: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "name": str(self.name), "stop": list(self.stop)}


@dataclass(frozen=True, slots=True)
class Case(Generic[E]):
    """A row of the table: when it holds, and what follows."""

    number: int
    name: Name
    holds: Callable[[E], bool]
    action: Action
    reason: str


def verdict(evidence: Evidence) -> Verdict:
    """Return the first row of the table that holds for the evidence."""
    row = next(row for row in TABLE if row.holds(evidence))
    stop = _deleted(evidence) if row.number == 0 else ()
    reason = f"{row.reason}{_left_at_work(row, evidence)}"
    return Verdict(row.number, row.name, row.action, reason, _ended_at(evidence), stop)


def _left_at_work(row: Case[Evidence], e: Evidence) -> str:
    """Name what a command that ended well has left at work; its outputs say if it is waited for."""
    if row.action in (Action.WAIT, Action.ATTACH) and e.awaited:
        named = ", ".join(e.awaited[:_NAMED])
        return f"; its command ended well, its outputs are not all there: waits for {named}"
    if row.name == Name.SUCCEEDED and e.tenants:
        named = ", ".join(f"process {one.pid}" for one in e.tenants[:_NAMED])
        return f"; what it started is still at work: {named}"
    return ""


def _exit_code(e: Evidence) -> int | None:
    """Return the monitor's exit code where the marker is this attempt's own."""
    return e.exit_marker.code if e.exit_marker.seen is SeenMarker.OWN else None


def _was_refused(e: Evidence) -> bool:
    code = _exit_code(e)
    return code is not None and 0 < code <= SIGNALLED and code != ScriptEnd.SILENT


def _all_finished(e: Evidence) -> bool:
    return bool(e.jobs) and all(job.is_finished for job in e.jobs)


def _all_recorded_success(e: Evidence) -> bool:
    return bool(e.jobs) and all(job.exit_code == 0 for job in e.jobs)


def _deleted(e: Evidence) -> tuple[int, ...]:
    return tuple(tenant.pid for tenant in e.tenants or () if tenant.deleted)


def _is_orphaned_without_folder(e: Evidence) -> bool:
    return bool(_deleted(e)) and (bool(e.open_jobs) or not e.jobs)


def _is_elsewhere(e: Evidence) -> bool:
    return _differs(e.root_recorded, e.root_now) or _differs(e.host_recorded, e.host_now)


def _differs(recorded: str | None, now: str) -> bool:
    return recorded is not None and recorded != now


def _is_monitored(e: Evidence) -> bool:
    if e.monitor_locked is None:
        return e.monitor_alive is True
    # A session without a record of its monitor is one that is just being started.
    return e.monitor_locked or (e.session is True and e.monitor_alive is None)


def _is_held_up(e: Evidence) -> bool:
    return e.monitor_stopped and _is_monitored(e)


def _lacks_an_answer(e: Evidence) -> bool:
    if e.far is not None and e.far.error is not None:
        return True
    if e.scheduler is None:
        locks = [job.lock_held for job in e.open_jobs]
        return e.monitor_locked is None or e.tenants is None or None in locks
    # A lock may be unknown to a cluster's file system; whoever has ended needs no scheduler.
    silent = e.queue is not None and e.queue.listed is None
    return e.monitor_locked is None or (silent and _may_compute(e))


def _may_compute(e: Evidence) -> bool:
    return bool(e.open_jobs) or not e.jobs


def _computes(e: Evidence) -> bool:
    """Say whether a computation lives or waits for its turn; what a job leaves behind is none."""
    if any(job.lock_held or job.id_alive for job in e.open_jobs):
        return True
    return (bool(e.tenants) or _is_queued(e)) and _may_compute(e)


def _is_queued(e: Evidence) -> bool:
    """Say whether the scheduler lists a job that works in the attempt's folder, of any id."""
    listed = e.queue.listed if e.queue is not None else None
    return any(one.is_alive for one in listed or ())


def _must_be_asked_through(e: Evidence) -> bool:
    """Say whether only DPDispatcher can ask the scheduler, and has not said that a job is gone."""
    asked = [job for job in e.open_jobs if job.state not in _STATES_GONE]
    return e.scheduler is not None and e.queue is None and bool(asked)


def _was_taken(e: Evidence) -> bool:
    return _was_ended(e, TAKEN)


def _went_too_far(e: Evidence) -> bool:
    return _was_ended(e, EXCEEDED)


def _was_ended(e: Evidence, states: AbstractSet[str]) -> bool:
    # What came after its task alone needs no repetition: the results are back.
    return not _has_succeeded(e) and any(
        job.queued in states and job.exit_code != 0 for job in e.jobs
    )


def _computes_recorded(e: Evidence) -> bool:
    return _computes(e) and e.recovery_file


def _computes_after_move(e: Evidence) -> bool:
    return e.moved and _computes(e)


def _computes_unwatched(e: Evidence) -> bool:
    """Say whether a job goes on whose monitors refuse to watch it; one that was killed does not."""
    return e.in_vain and _was_refused(e) and _computes(e)


def _was_left_behind(e: Evidence) -> bool:
    return e.moved and not e.jobs and not _was_refused(e)


def _has_failed(e: Evidence) -> bool:
    return any(job.is_over and job.exit_code != 0 for job in e.jobs)


def _outputs_are_there(e: Evidence) -> bool:
    return all(o.presence is not Presence.MISSING and o.new is not False for o in e.outputs)


def _has_succeeded(e: Evidence) -> bool:
    return _exit_code(e) == 0 and _outputs_are_there(e)


def _claims_success_without_outputs(e: Evidence) -> bool:
    return _exit_code(e) == 0


def _is_collected_unmarked(e: Evidence) -> bool:
    if e.launched_at is None:
        # Whatever lies there was there before: this attempt has not begun.
        return False
    if not _outputs_are_there(e) or not (e.outputs or _all_recorded_success(e)):
        return False
    if _all_recorded_success(e) and _was_refused(e) and e.outputs:
        # A monitor killed while it cleaned up: what its successor says no longer matters.
        return True
    return not e.copies and (_exit_code(e) is None or _all_recorded_success(e))


def _is_for_a_person(e: Evidence) -> bool:
    """Say whether outputs are in place of which nothing tells whether they are whole."""
    there = _has_succeeded(e) or _is_collected_unmarked(e)
    return there and not e.verifiable and any(job.is_untold for job in e.jobs)


def _ran_on_in_vain(e: Evidence) -> bool:
    return any(job.is_untold for job in e.open_jobs)


def _misses_an_output(e: Evidence) -> bool:
    return _all_finished(e) and bool(e.copies) and _was_refused(e) and bool(e.backward_missing)


def _is_uncollected(e: Evidence) -> bool:
    return _all_finished(e) and bool(e.copies)


def _has_lost_its_results(e: Evidence) -> bool:
    return _all_finished(e) and not e.copies


def _has_flagged_failure(e: Evidence) -> bool:
    return any(job.failed_flag and not _was_signalled(e, job) for job in e.open_jobs)


def _was_killed(e: Evidence) -> bool:
    return any(job.exit_code == KILLED and not job.is_untold for job in e.jobs)


def _was_signalled(e: Evidence, job: ObservedJob) -> bool:
    # A scheduler signals the command and its shell at once, and the flag tells of the command.
    return e.scheduler is not None and (job.exit_code or 0) > SIGNALLED


def _has_lost_a_job(e: Evidence) -> bool:
    return bool(e.open_jobs)


def _was_rejected(e: Evidence) -> bool:
    return not e.jobs and _was_refused(e)


def _was_killed_early(e: Evidence) -> bool:
    return not e.jobs and not e.copies and (_exit_code(e) or 0) > SIGNALLED


def _was_never_submitted(e: Evidence) -> bool:
    return not e.jobs and bool(e.copies)


def _was_cut_off(e: Evidence) -> bool:
    return _was_never_submitted(e) and _exit_code(e) == ScriptEnd.SILENT


def _was_never_started(e: Evidence) -> bool:
    return not e.jobs and not e.copies


def _always(_: Evidence) -> bool:
    return True


def _ended_at(e: Evidence) -> str | None:
    ends = [job.ended_at for job in e.jobs if job.ended_at is not None]
    if not ends:
        return None
    micros = max(ends) // 1000
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(
        microsecond=micros % 1_000_000
    )
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_A = Action

#: Tried from the top; the first row that holds decides.
TABLE: tuple[Case[Evidence], ...] = (
    Case(
        2,
        Name.ELSEWHERE,
        _is_elsewhere,
        _A.UNKNOWN,
        "it was launched in another root or on another host",
    ),
    Case(
        0,
        Name.ORPHAN_DIR_DELETED,
        _is_orphaned_without_folder,
        _A.LOST,
        "its folder was deleted while it ran",
    ),
    Case(
        1,
        Name.MONITOR_STOPPED,
        _is_held_up,
        _A.WAIT,
        "its monitor was told to stop where it is (SIGSTOP) and collects nothing; `kill -CONT` the "
        "process that monitor.json names, or kill it and another one is attached",
    ),
    Case(1, Name.MONITORED, _is_monitored, _A.WAIT, "a monitor watches it"),
    Case(2, Name.UNKNOWN, _lacks_an_answer, _A.UNKNOWN, "a lock or the processes gave no answer"),
    Case(
        3,
        Name.RUNS_ON_AFTER_MOVE,
        _computes_after_move,
        _A.WAIT,
        "the job runs on from before the root was moved; no monitor fits it",
    ),
    Case(
        3,
        Name.RUNS_UNWATCHED,
        _computes_unwatched,
        _A.WAIT,
        "the job runs on; its monitors end at once, so that its end is looked for without one",
    ),
    Case(
        3, Name.ORPHAN_RUNNING, _computes_recorded, _A.ATTACH, "the job runs on without a monitor"
    ),
    Case(
        4,
        Name.ORPHAN_RUNNING_UNRECORDED,
        _computes,
        _A.ATTACH,
        "the job runs on, unknown to DPDispatcher",
    ),
    Case(
        3,
        Name.ASKED_THROUGH_DPDISPATCHER,
        _must_be_asked_through,
        _A.ATTACH,
        "only DPDispatcher can ask its scheduler",
    ),
    Case(
        9, Name.JOB_TAKEN, _was_taken, _A.LOST, "the scheduler ended it through no fault of its own"
    ),
    Case(8, Name.LIMIT_EXCEEDED, _went_too_far, _A.FAILED, "it took more than it had asked for"),
    Case(8, Name.TASK_FAILED, _has_failed, _A.FAILED, "a job recorded that its task failed"),
    Case(9, Name.JOB_KILLED, _was_killed, _A.LOST, "its command was ended by SIGKILL from outside"),
    Case(
        7,
        Name.UNTOLD,
        _is_for_a_person,
        _A.UNKNOWN,
        "its shells were killed and its command computed on without them: its outputs are in "
        "place, and nothing tells whether it ended well. Look at them and say `wfctl stage "
        "compute`; or `wfctl stage fail` and `wfctl stage retry`",
    ),
    Case(
        7, Name.SUCCEEDED, _has_succeeded, _A.SUCCEEDED, "collected, exit code 0, outputs in place"
    ),
    Case(
        6,
        Name.OUTPUT_MISSING,
        _claims_success_without_outputs,
        _A.FAILED,
        "the job ended well without an output",
    ),
    Case(
        10,
        Name.COLLECTED_UNMARKED,
        _is_collected_unmarked,
        _A.SUCCEEDED,
        "collected, but the monitor died before it said so",
    ),
    Case(
        6,
        Name.OUTPUT_MISSING,
        _misses_an_output,
        _A.FAILED,
        "a file to bring back was never written",
    ),
    Case(
        5,
        Name.FINISHED_NOT_COLLECTED,
        _is_uncollected,
        _A.ATTACH,
        "the job is over and its results wait",
    ),
    Case(
        9,
        Name.RESULTS_LOST,
        _has_lost_its_results,
        _A.LOST,
        "the job ended well, but its folder and outputs are gone",
    ),
    Case(
        8, Name.TASK_FAILED, _has_flagged_failure, _A.FAILED, "DPDispatcher flagged a failed task"
    ),
    Case(
        9,
        Name.VANISHED,
        outlived.has_vanished,
        _A.UNKNOWN,
        "it is listed no more and left no word; its records are read once more",
    ),
    Case(
        9,
        Name.UNSEEN,
        outlived.may_live_unseen,
        _A.UNKNOWN,
        "it is listed no more, but it started where no lock tells whether it lives",
    ),
    Case(
        9,
        Name.FORGOTTEN,
        outlived.is_forgotten,
        _A.UNKNOWN,
        "it waited and is listed no more, like the attempt before it",
    ),
    Case(
        9,
        Name.NEVER_RAN,
        outlived.never_ran,
        _A.LOST,
        "it waited, and its scheduler lists it no more",
    ),
    Case(
        9,
        Name.JOB_LOST,
        _ran_on_in_vain,
        _A.LOST,
        "its shells were killed; its command computed on without them and ended before it had "
        "written every file to bring back",
    ),
    Case(9, Name.JOB_LOST, _has_lost_a_job, _A.LOST, "the job died without a word of its own"),
    Case(
        9,
        Name.LEFT_BEHIND,
        _was_left_behind,
        _A.LOST,
        "nothing of it was started before the root was moved, and its files name that place",
    ),
    Case(14, Name.REJECTED, _was_rejected, _A.FAILED, "DPDispatcher refused the submission"),
    Case(
        13,
        Name.MONITOR_KILLED_EARLY,
        _was_killed_early,
        _A.LAUNCH,
        "the monitor was killed before it submitted",
    ),
    Case(
        12,
        Name.NEVER_SUBMITTED,
        _was_cut_off,
        _A.LAUNCH,
        "the connection to its machine was closed, or gave no answer, before a job was submitted",
    ),
    Case(
        12,
        Name.NEVER_SUBMITTED,
        _was_never_submitted,
        _A.LAUNCH,
        "a folder was made, but no job submitted",
    ),
    Case(11, Name.NEVER_STARTED, _was_never_started, _A.LAUNCH, "nothing was started"),
    Case(2, Name.UNDECIDED, _always, _A.UNKNOWN, "the evidence fits no row"),
)
