"""Strangers: attempts whose folders lie in a stage and which its log knows nothing of.

They are of an earlier life of the workflow, or of a log that was lost or rolled back. What they
computed is never taken for this workflow's own, and nothing is started beside one at work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt.contract import ATTEMPTS, LAUNCH_RECORD
from reconciler.attempt.paths import AttemptPaths, named
from reconciler.context import Jobs
from reconciler.control.finding import DAMAGES
from reconciler.dpdispatcher.watch import AGAIN
from reconciler.evidence.collect import Evidence, collect
from reconciler.verdict import moved
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action, Verdict


class StrangerAtWork(Refused):
    """An attempt that the log does not know computes, or may, in the folder of the stage."""

    code = "stranger_at_work"

    def __init__(self, stage: str, folder: Path, why: str, at_work: str) -> None:
        super().__init__(
            f"{stage}: {folder} holds an attempt that this log does not know, of an earlier life "
            f"of the workflow or of a log that was lost: {why}{at_work}. Nothing is started beside "
            "it: wait until it has ended, or end it; where it is known to be over, move its folder "
            "away. Then try again. What it computed is never taken for this workflow's own.",
            stage=stage,
            folder=str(folder),
        )


def check_strangers(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Tell of results that strangers left; raises `StrangerAtWork` where one may be at work."""
    for stranger in of(jobs, state, stage):
        evidence, found = looked_at(jobs, stage, stranger)
        if may_compute(found):
            at_work = _who(evidence)
            raise StrangerAtWork(stage.id, stranger.folder, found.reason, at_work)
        if found.name == Name.FINISHED_NOT_COLLECTED:
            jobs.say(
                f"{stage.id}: {stranger.folder} holds the result of an attempt that this log knows "
                "nothing of; it is left where it lies and not used",
                level="warning",
                stage=stage.id,
            )


def looked_at(jobs: Jobs, stage: Stage, stranger: AttemptPaths) -> tuple[Evidence, Verdict]:
    """Look at a stranger; at one that is listed no more once again, as at any other attempt."""
    seen = _looked_once(jobs, stage, stranger, again=False)
    if seen[1].name != Name.VANISHED:
        return seen
    time.sleep(AGAIN)
    return _looked_once(jobs, stage, stranger, again=True)


def _looked_once(
    jobs: Jobs, stage: Stage, stranger: AttemptPaths, *, again: bool
) -> tuple[Evidence, Verdict]:
    try:
        evidence = replace(collect(stranger, jobs.now()), looked_twice=again)
    except DAMAGES as error:
        raise StrangerAtWork(
            stage.id, stranger.folder, f"it cannot be read ({error})", ""
        ) from error
    # In a copy of its root nothing of it is at work, and after a move what is shows itself.
    return moved.judged(evidence)


def of(jobs: Jobs, state: Workflow, stage: Stage) -> Iterator[AttemptPaths]:
    """Yield the attempts whose folders lie in the stage and which its log does not know."""
    known = {attempt.name for attempt in stage.attempts}
    for record in sorted((jobs.root / stage.id / ATTEMPTS).glob(f"att-*/{LAUNCH_RECORD}")):
        name = record.parent.name
        if name not in known:
            yield named(jobs.root, state.id, stage.id, name)


def may_compute(found: Verdict) -> bool:
    """Whether an attempt is at work, or may be."""
    if found.name == Name.FINISHED_NOT_COLLECTED:
        return False
    return found.action in (Action.WAIT, Action.ATTACH, Action.UNKNOWN)


def _who(evidence: Evidence) -> str:
    words = [f"process {tenant.pid}" for tenant in evidence.tenants or ()]
    words += [f"job {job.id}" for job in evidence.jobs if job.id is not None]
    return f" ({', '.join(words)})" if words else ""
