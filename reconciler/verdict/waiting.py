"""Find the reason why a running attempt makes no progress."""

from __future__ import annotations

from lifecycle.words.waiting import describe_pending_job
from reconciler.evidence.evidence import Evidence

#: Maximum number of characters of a reason that is recorded in the log.
_WIDTH = 500


def why_waiting(e: Evidence) -> str | None:
    """Return the reason why the attempt makes no progress, or None if no reason is known.

    The same cause always gives the same text, so that it is recorded only once.
    """
    found = _describe_silent_source(e) or _describe_paused_processes(e) or _describe_pending_jobs(e)
    return found[:_WIDTH] if found else None


def _describe_silent_source(e: Evidence) -> str | None:
    if e.missing_answer_reason is None:
        return None
    far = e.far is not None and e.far.error is not None
    subject = "the machine of its jobs" if far else "the scheduler"
    return f"{subject} does not answer: {e.missing_answer_reason}"


def _describe_paused_processes(e: Evidence) -> str | None:
    if not e.stopped:
        return None
    pids = " ".join(map(str, e.stopped))
    return f"processes of the jobs are paused (SIGSTOP); continue them with `kill -CONT {pids}`"


def _describe_pending_jobs(e: Evidence) -> str | None:
    listed = [one for one in (e.queue.listed if e.queue else None) or () if one.is_alive]
    pending = [one for one in listed if one.state == "PENDING" and one.reason]
    if len(pending) < len(listed) or not pending:
        return None
    first = min(pending, key=lambda one: (len(one.id), one.id))
    return describe_pending_job(first.id, first.reason or "")
