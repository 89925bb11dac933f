"""Why an attempt that is under way does not continue."""

from __future__ import annotations

from lifecycle.words.waiting import pending_words
from reconciler.evidence.evidence import Evidence

#: Maximum number of letters of a recorded reason.
_WIDTH = 500


def why_waiting(e: Evidence) -> str | None:
    """Return why the attempt does not continue; None if it does, or if nothing tells.

    An unchanged reason gives the same text, so that it is recorded once.
    """
    found = _silent(e) or _stopped(e) or _pending(e)
    return found[:_WIDTH] if found else None


def _silent(e: Evidence) -> str | None:
    if e.silence is None:
        return None
    far = e.far is not None and e.far.error is not None
    return f"{'the machine of its jobs' if far else 'the scheduler'} gives no answer: {e.silence}"


def _stopped(e: Evidence) -> str | None:
    if not e.stopped:
        return None
    pids = " ".join(map(str, e.stopped))
    return f"processes of its jobs are stopped (SIGSTOP); `kill -CONT {pids}` lets them continue"


def _pending(e: Evidence) -> str | None:
    listed = [one for one in (e.queue.listed if e.queue else None) or () if one.is_alive]
    pending = [one for one in listed if one.state == "PENDING" and one.reason]
    if len(pending) < len(listed) or not pending:
        return None
    first = min(pending, key=lambda one: (len(one.id), one.id))
    return pending_words(first.id, first.reason or "")
