"""Absence as evidence: what it means that a job is listed no more and left no word.

Alone it is no end: a job may wait, or compute where nobody sees it.
"""

from __future__ import annotations

from reconciler.evidence.collect import Evidence


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
