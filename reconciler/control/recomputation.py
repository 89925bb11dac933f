"""Finished tasks that the next attempt of a sweep computes again, told before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.conditions import cores
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.mandates import counted
from projections.words.text import told_span
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Finished tasks of a sweep whose inputs changed since its newest attempt started.

    ``seconds`` is how long one finished task took on average, ``cores`` the cores of a task.
    """

    attempt: str
    files: Sequence[str]
    finished: int
    total: int
    seconds: float
    cores: int

    def __str__(self) -> str:
        again = "1 finished task is" if self.finished == 1 else f"{self.finished:,} finished are"
        return (
            f"{self.cause}: {counted(self.total, 'task')} to compute, because {again} computed "
            f"again ({self.price(self.total)})"
        )

    @property
    def cause(self) -> str:
        """The files that changed, in words."""
        return f"{', '.join(self.files)} changed since {self.attempt} started"

    def price(self, tasks: int) -> str:
        """Return what some tasks cost, by the time that the finished ones took."""
        spent = self.seconds * tasks
        hours = counted(round(spent * self.cores / 3600, 2), "core hour")
        return f"about {told_span(spent)} of computing, {hours}"


def warn_of_recomputation(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Say which finished tasks the next attempt of a stage computes again; write nothing."""
    if text := describe_recomputation(jobs.root, state, stage):
        jobs.say(text, level="warning", stage=stage.id)


def describe_recomputation(root: Path, state: Workflow, stage: Stage) -> str | None:
    """Return which finished tasks a new attempt computes again; None without such tasks.

    Tasks that a person kept are not computed again.
    """
    newest = stage.attempts[-1].id if stage.attempts else None
    if any(one["attempt"] == newest for one in stage.kept_tasks):
        return None
    found = find_recomputation(root, state, stage)
    return None if found is None else str(found)


def find_recomputation(root: Path, state: Workflow, stage: Stage) -> Recomputation | None:
    """Return the finished tasks of a stage whose inputs changed since its newest attempt.

    None if the stage has no map, if no input changed since the newest attempt, if no task has
    finished, or if the tasks cannot be read: the attempt itself reports that.
    """
    if not (is_sweep(stage.parameters) and stage.attempts):
        return None
    from reconciler.files.freshness import changed_inputs  # only if a stage has tasks
    from reconciler.sweep.tasks import tasks_of

    changed = changed_inputs(root, state, [stage.id]).get(stage.id)
    if not changed:
        return None
    try:
        tasks = tasks_of(root, state, stage)
    except (Refused, ReconcilerError, OSError):
        return None
    finished = [task for task in tasks if task.is_kept]
    if not finished:
        return None
    spent = sum((task.ended or 0) - (task.started or task.ended or 0) for task in finished) / 1e6
    return Recomputation(
        stage.attempts[-1].id,
        changed,
        len(finished),
        len(tasks),
        spent / len(finished),
        cores(state, stage),
    )
