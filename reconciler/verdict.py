"""The verdict: what is so, and what to do about it, from the evidence alone.

The rows of the table are tried from the top and the first that holds decides. Their numbers are
those of the published evidence table; a row that takes up an attempt's own records carries the
number of the row it strengthens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from reconciler.evidence import Evidence, Job, Presence
from reconciler.markers import Seen

#: From here on an exit code tells the signal that ended a shell, not what its command said.
_SIGNALLED = 128
_STATE_FINISHED = 5


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
    name: str
    action: Action
    reason: str
    occurred_at: str | None = None
    stop: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "stop": list(self.stop)}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: when it holds, and what follows."""

    number: int
    name: str
    holds: Callable[[Evidence], bool]
    action: Action
    reason: str


def verdict(evidence: Evidence) -> Verdict:
    """Return the first row of the table that holds for the evidence."""
    row = next(row for row in TABLE if row.holds(evidence))
    stop = _deleted(evidence) if row.number == 0 else ()
    return Verdict(row.number, row.name, row.action, row.reason, _ended_at(evidence), stop)


def _exit_code(e: Evidence) -> int | None:
    """Return the monitor's exit code where the marker is this attempt's own."""
    return e.exit_marker.code if e.exit_marker.seen is Seen.OWN else None


def _was_refused(e: Evidence) -> bool:
    code = _exit_code(e)
    return code is not None and 0 < code <= _SIGNALLED


def _is_over(job: Job) -> bool:
    """Say whether a job wrote of its own accord that it is through, well or badly."""
    return job.exit_code is not None and job.exit_code <= _SIGNALLED


def _is_finished(job: Job) -> bool:
    if job.exit_code is not None:
        return job.exit_code == 0
    return job.tag or job.state == _STATE_FINISHED


def _all_finished(e: Evidence) -> bool:
    return bool(e.jobs) and all(_is_finished(job) for job in e.jobs)


def _all_recorded_success(e: Evidence) -> bool:
    return bool(e.jobs) and all(job.exit_code == 0 for job in e.jobs)


def _open(e: Evidence) -> list[Job]:
    """Return the jobs that have not been seen to end."""
    return [job for job in e.jobs if not _is_over(job) and not _is_finished(job)]


def _deleted(e: Evidence) -> tuple[int, ...]:
    return tuple(tenant.pid for tenant in e.tenants or () if tenant.deleted)


def _is_orphaned_without_folder(e: Evidence) -> bool:
    return bool(_deleted(e)) and (bool(_open(e)) or not e.jobs)


def _is_elsewhere(e: Evidence) -> bool:
    return _differs(e.root_recorded, e.root_now) or _differs(e.host_recorded, e.host_now)


def _differs(recorded: str | None, now: str) -> bool:
    return recorded is not None and recorded != now


def _is_monitored(e: Evidence) -> bool:
    if e.monitor_locked is None:
        return e.monitor_alive is True
    # A session without a record of its monitor is one that is just being started.
    return e.monitor_locked or (e.session is True and e.monitor_alive is None)


def _lacks_an_answer(e: Evidence) -> bool:
    locks = [job.lock_held for job in _open(e)]
    return e.monitor_locked is None or e.tenants is None or None in locks


def _computes(e: Evidence) -> bool:
    """Say whether a computation lives; what a job leaves behind is none."""
    if any(job.lock_held or job.id_alive for job in _open(e)):
        return True
    return bool(e.tenants) and (bool(_open(e)) or not e.jobs)


def _computes_recorded(e: Evidence) -> bool:
    return _computes(e) and e.recovery_file


def _has_failed(e: Evidence) -> bool:
    return any(_is_over(job) and job.exit_code != 0 for job in e.jobs)


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


def _misses_an_output(e: Evidence) -> bool:
    return _all_finished(e) and bool(e.copies) and _was_refused(e) and bool(e.backward_missing)


def _is_uncollected(e: Evidence) -> bool:
    return _all_finished(e) and bool(e.copies)


def _has_lost_its_results(e: Evidence) -> bool:
    return _all_finished(e) and not e.copies


def _has_flagged_failure(e: Evidence) -> bool:
    return any(job.failed_flag for job in _open(e))


def _has_lost_a_job(e: Evidence) -> bool:
    return bool(_open(e))


def _was_rejected(e: Evidence) -> bool:
    return not e.jobs and _was_refused(e)


def _was_killed_early(e: Evidence) -> bool:
    return not e.jobs and not e.copies and (_exit_code(e) or 0) > _SIGNALLED


def _was_never_submitted(e: Evidence) -> bool:
    return not e.jobs and bool(e.copies)


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
TABLE: tuple[Row, ...] = (
    Row(
        2,
        "ELSEWHERE",
        _is_elsewhere,
        _A.UNKNOWN,
        "it was launched in another root or on another host",
    ),
    Row(
        0,
        "ORPHAN_DIR_DELETED",
        _is_orphaned_without_folder,
        _A.LOST,
        "its folder was deleted while it ran",
    ),
    Row(1, "MONITORED", _is_monitored, _A.WAIT, "a monitor watches it"),
    Row(2, "UNKNOWN", _lacks_an_answer, _A.UNKNOWN, "a lock or the processes gave no answer"),
    Row(3, "ORPHAN_RUNNING", _computes_recorded, _A.ATTACH, "the job runs on without a monitor"),
    Row(
        4,
        "ORPHAN_RUNNING_UNRECORDED",
        _computes,
        _A.ATTACH,
        "the job runs on, unknown to DPDispatcher",
    ),
    Row(8, "TASK_FAILED", _has_failed, _A.FAILED, "a job recorded that its task failed"),
    Row(7, "SUCCEEDED", _has_succeeded, _A.SUCCEEDED, "collected, exit code 0, outputs in place"),
    Row(
        6,
        "OUTPUT_MISSING",
        _claims_success_without_outputs,
        _A.FAILED,
        "the job ended well without an output",
    ),
    Row(
        10,
        "COLLECTED_UNMARKED",
        _is_collected_unmarked,
        _A.SUCCEEDED,
        "collected, but the monitor died before it said so",
    ),
    Row(
        6, "OUTPUT_MISSING", _misses_an_output, _A.FAILED, "a file to bring back was never written"
    ),
    Row(
        5,
        "FINISHED_NOT_COLLECTED",
        _is_uncollected,
        _A.ATTACH,
        "the job is over and its results wait",
    ),
    Row(
        9,
        "RESULTS_LOST",
        _has_lost_its_results,
        _A.LOST,
        "the job ended well, but its folder and outputs are gone",
    ),
    Row(8, "TASK_FAILED", _has_flagged_failure, _A.FAILED, "DPDispatcher flagged a failed task"),
    Row(9, "JOB_LOST", _has_lost_a_job, _A.LOST, "the job died without a word of its own"),
    Row(14, "REJECTED", _was_rejected, _A.FAILED, "DPDispatcher refused the submission"),
    Row(
        13,
        "MONITOR_KILLED_EARLY",
        _was_killed_early,
        _A.LAUNCH,
        "the monitor was killed before it submitted",
    ),
    Row(
        12,
        "NEVER_SUBMITTED",
        _was_never_submitted,
        _A.LAUNCH,
        "a folder was made, but no job submitted",
    ),
    Row(11, "NEVER_STARTED", _was_never_started, _A.LAUNCH, "nothing was started"),
    Row(2, "UNDECIDED", _always, _A.UNKNOWN, "the evidence fits no row"),
)
