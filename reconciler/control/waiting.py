"""Waiting for attempts: each is settled when it ends, of several whichever is first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from lifecycle.state.workflow import Stage, Workflow
from reconciler.context import Jobs
from reconciler.control.dispatch import dispatch
from reconciler.control.finding import AttemptFinding, in_flight, is_in_flight, look, newest_attempt
from reconciler.control.reconcile import reconcile
from reconciler.verdict.table import Action
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Seconds between two monitors of an attempt whose monitors keep dying.
_LONGEST_PAUSE = 60.0
#: Seconds between two looks at the locks of the monitors.
GLANCE = 0.1
#: Seconds between two tellings of what is waited for.
_TOLD = 1.0


def _pauses() -> Iterator[float]:
    """Yield seconds to wait before a monitor is attached once more: nothing at first."""
    yield 0.0
    yield from (min(0.1 * 2**n, _LONGEST_PAUSE) for n in count())


@dataclass(slots=True)
class Turn:
    """When a stage is settled next; monitors that keep dying are replaced more and more slowly."""

    due: float = 0.0
    pauses: Iterator[float] = field(default_factory=_pauses)


def wait_all(jobs: Jobs, ids: Sequence[str], timeout: float | None = None) -> None:
    """Wait until the attempts of the stages have ended, and record each end as it comes.

    Returns early after ``timeout`` seconds; a stage of which nothing can be said is not waited
    for any longer, but whoever gives no answer is asked again. Raises `UnknownStage` before
    anything is waited for.
    """
    end = None if timeout is None else time.monotonic() + timeout
    state = jobs.service.state()
    turns = {state.stage(id_).id: Turn() for id_ in ids}
    while len(turns) > 1 and (end is None or time.monotonic() < end):
        for id_ in [id_ for id_, turn in turns.items() if is_due(jobs, state, id_, turn)]:
            finding = wait(jobs, id_, timeout=0)
            if _is_over(jobs, id_, finding):
                del turns[id_]
        jobs.waits(state, turns)
        time.sleep(GLANCE)
    for id_ in turns:
        wait(jobs, id_, None if end is None else max(0.0, end - time.monotonic()))


def is_due(jobs: Jobs, state: Workflow, id_: str, turn: Turn) -> bool:
    """Whether a stage that nobody watches any more is to be settled now."""
    stage = state.stage(id_)
    if stage.attempt is not None:
        attempt = jobs.attempt(state, stage, stage.attempt.id)
        if time.monotonic() < turn.due or not jobs.runner.wait(attempt, timeout=0):
            return False
    turn.due = time.monotonic() + next(turn.pauses)
    return True


def _is_over(jobs: Jobs, id_: str, finding: AttemptFinding | None) -> bool:
    if finding is not None and finding.verdict.action is Action.UNKNOWN:
        return finding.evidence.silence is None
    return id_ not in {stage.id for stage in in_flight(jobs.service.state())}


def wait(jobs: Jobs, id_: str, timeout: float | None = None) -> AttemptFinding | None:
    """Wait until the attempt of the stage has ended, and record how; None where none is open.

    Monitors that die meanwhile are replaced. The finding's action is ``wait`` where ``timeout``
    (seconds) passed first, ``unknown`` where nothing can be said of the attempt.
    """
    end = None if timeout is None else time.monotonic() + timeout
    finding = None
    for pause in _pauses():
        state = jobs.service.state()
        stage = state.stage(id_)
        if not is_in_flight(stage):
            break
        if not _monitor_ended(jobs, state, stage, end):
            return look(jobs, state, stage)
        finding = next(iter(reconcile(jobs, only=id_)), None)
        if finding is not None and (_is_beyond_help(jobs, finding) or _left(end) == 0):
            break
        time.sleep(min(pause, _left(end) or pause))
    return finding


def _monitor_ended(jobs: Jobs, state: Workflow, stage: Stage, end: float | None) -> bool:
    """Wait for the monitor of the newest attempt, and tell of it; False where time is up first."""
    attempt = newest_attempt(jobs, state, stage)
    while True:
        left = _left(end)
        if jobs.runner.wait(attempt, _TOLD if left is None else min(left, _TOLD)):
            return True
        if left is not None and left <= _TOLD:
            return False
        jobs.waits(state, [stage.id])


def _is_beyond_help(jobs: Jobs, finding: AttemptFinding) -> bool:
    """Whether nothing can be said of an attempt, and asking again is of no use."""
    if finding.verdict.action is not Action.UNKNOWN:
        return False
    why_not = finding.evidence.silence
    if why_not is not None:
        text = f"{finding.stage}: no answer about {finding.attempt} ({why_not}); asking again"
        jobs.say(text, level="warning", stage=finding.stage, attempt=finding.attempt)
    return why_not is None


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def dispatch_sync(
    jobs: Jobs, id_: str, options: WriteOptions, *, diagnostic: bool = False
) -> Outcome:
    """Launch an attempt of the stage, wait for its end and record it."""
    outcome = dispatch(jobs, id_, sync=True, options=options, diagnostic=diagnostic)
    if options.dry_run or outcome.repeated:
        return outcome
    wait(jobs, id_)
    return replace(outcome, stands=jobs.service.state())
