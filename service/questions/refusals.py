"""The commands that the rules said no to."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.store import Refusal
from service.reading.log import At, WorkflowLog


def refusals_by(log: WorkflowLog, at: At = None) -> Iterator[Refusal]:
    """Yield the refusals up to a moment, in the order they were recorded.

    A refusal has no version: up to a version or a session are those before the next event.
    """
    end = _end(log, at)
    return (
        refusal for refusal in log.store.refusals(log.stream) if end is None or refusal.at <= end
    )


def _end(log: WorkflowLog, at: At) -> str | None:
    if at is None:
        return None
    moment = log.resolved(at)
    times = [time for time in (moment.so_by, moment.known_by) if time is not None]
    if moment.version is not None:
        following = next(log.store.read(log.stream, after=moment.version), None)
        times += [following.recorded_at] if following is not None else []
    return min(times, default=None)
