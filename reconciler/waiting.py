"""Waiting for several stages at once: each is settled when it ends, whichever is first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lifecycle.workflow import Workflow
from reconciler.jobs import Jobs
from reconciler.reconcile import Finding, in_flight, pauses, wait
from reconciler.verdict import Action

#: Seconds between two looks at the locks of the monitors.
_GLANCE = 0.1


@dataclass(slots=True)
class _Turn:
    """When a stage is settled next; monitors that keep dying are replaced more and more slowly."""

    due: float = 0.0
    pauses: Iterator[float] = field(default_factory=pauses)


def wait_all(jobs: Jobs, ids: Sequence[str], timeout: float | None = None) -> None:
    """Wait until the attempts of the stages have ended, and record each end as it comes.

    Returns early after ``timeout`` seconds; a stage of which nothing can be said is not waited
    for any longer. Raises `UnknownStage` before anything is waited for.
    """
    end = None if timeout is None else time.monotonic() + timeout
    state = jobs.service.state()
    turns = {state.stage(id_).id: _Turn() for id_ in ids}
    while len(turns) > 1 and (end is None or time.monotonic() < end):
        for id_ in [id_ for id_, turn in turns.items() if _is_due(jobs, state, id_, turn)]:
            finding = wait(jobs, id_, timeout=0)
            if _is_over(jobs, id_, finding):
                del turns[id_]
        time.sleep(_GLANCE)
    for id_ in turns:
        wait(jobs, id_, None if end is None else max(0.0, end - time.monotonic()))


def _is_due(jobs: Jobs, state: Workflow, id_: str, turn: _Turn) -> bool:
    """Whether a stage that nobody watches any more is to be settled now."""
    stage = state.stage(id_)
    if stage.attempt is not None:
        attempt = jobs.attempt(state, stage, stage.attempt.id)
        if time.monotonic() < turn.due or not jobs.runner.wait(attempt, timeout=0):
            return False
    turn.due = time.monotonic() + next(turn.pauses)
    return True


def _is_over(jobs: Jobs, id_: str, finding: Finding | None) -> bool:
    if finding is not None and finding.verdict.action is Action.UNKNOWN:
        return True
    return id_ not in {stage.id for stage in in_flight(jobs.service.state())}
