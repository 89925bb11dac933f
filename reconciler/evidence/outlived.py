"""Commands that compute on after all of their shells were killed.

Nobody is left to write down how such a command ends. That it outlived its shells is noted while it
is seen to; then what it was to bring back tells whether it came to its end, and a person, or the
stage's own verification, whether it ended well.
"""

from __future__ import annotations

from pathlib import Path

from reconciler.attempt.contract import OfJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.evidence.collect import Evidence


def note(attempt: AttemptPaths, evidence: Evidence) -> None:
    """Write down which jobs of the attempt are seen to compute without their shells.

    A shell that was left after all, and has told of the end, takes that back.
    """
    for job in _seen(evidence):
        _place(attempt, job).touch()
    for one in evidence.jobs:
        if one.tag and not one.alone:
            _place(attempt, one.name).unlink(missing_ok=True)


def _place(attempt: AttemptPaths, job: str) -> Path:
    return attempt.of_job(job, OfJob.ALONE)


def _seen(evidence: Evidence) -> list[str]:
    unasked = evidence.scheduler is not None and evidence.queue is None
    if evidence.silence is not None or unasked:
        return []
    known = (job for job in evidence.jobs if job.started and job.id is not None)
    return [job.name for job in known if job.lock_held and not job.id_alive]


def has_vanished(e: Evidence) -> bool:
    """Say whether a job is missing for the first time where its end may take time to show."""
    slow = e.scheduler is not None or e.far is not None
    return slow and not e.looked_twice and bool(e.open_jobs)


def may_live_unseen(e: Evidence) -> bool:
    """Say whether only the scheduler's silence about a job that started speaks for its end."""
    jobs = [job for job in e.open_jobs if job.exit_code is None and job.queued is None]
    return e.scheduler is not None and any(job.started and job.lock_held is None for job in jobs)


def never_ran(e: Evidence) -> bool:
    """Say whether all that is missing are jobs that waited, and no scheduler says of their end."""
    waited = [not job.started and job.queued is None for job in e.open_jobs]
    return e.scheduler is not None and bool(waited) and all(waited)


def is_forgotten(e: Evidence) -> bool:
    """Say whether the attempt that stands for one that never ran seems not to have run either."""
    return never_ran(e) and e.last_chance
