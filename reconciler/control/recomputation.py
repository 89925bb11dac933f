"""Warn if the next attempt of a sweep would compute finished tasks again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.requested_resources import cores_per_task
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.mandates import format_count
from projections.words.text import format_two_unit_duration
from reconciler.context import JobContext
from reconciler.errors import ReconcilerError
from reconciler.sweep.stage_tasks import get_stage_tasks


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The finished tasks of a sweep that must run again because input files changed.

    The files changed after the newest attempt started. ``seconds`` is the average run time of a
    finished task, ``cores`` the number of cores per task.
    """

    attempt: str
    files: Sequence[str]
    finished: int
    total: int
    seconds: float
    cores: int

    def __str__(self) -> str:
        again = (
            "1 finished task is" if self.finished == 1 else f"{self.finished:,} finished tasks are"
        )
        return (
            f"{self.cause}: {format_count(self.total, 'task')} to compute, because {again} "
            f"computed again ({self.price(self.total)})"
        )

    @property
    def cause(self) -> str:
        """Return a message that names the changed input files."""
        return f"{', '.join(self.files)} changed since {self.attempt} started"

    def price(self, tasks: int) -> str:
        """Return a message with the expected computing time of the given number of tasks.

        The text also states the core hours. The estimate uses the average run time of the finished
        tasks.
        """
        spent = self.seconds * tasks
        hours = format_count(round(spent * self.cores / 3600, 2), "core hour")
        return f"about {format_two_unit_duration(spent)} of computing, {hours}"


def warn_of_recomputation(jobs: JobContext, state: Workflow, stage: Stage) -> None:
    """Print a warning if the next attempt of a stage would compute finished tasks again."""
    if text := describe_recomputation(jobs.root, state, stage):
        jobs.say(text, level="warning", stage=stage.id)


def describe_recomputation(root: Path, state: Workflow, stage: Stage) -> str | None:
    """Return a warning if a new attempt would compute finished tasks again, or None.

    Returns None also if a person decided to keep the results of the finished tasks.
    """
    newest = stage.attempts[-1].id if stage.attempts else None
    if any(one["attempt"] == newest for one in stage.kept_tasks):
        return None
    found = find_recomputation(root, state, stage)
    return None if found is None else str(found)


def find_recomputation(root: Path, state: Workflow, stage: Stage) -> Recomputation | None:
    """Return the finished tasks that must be computed again because input files changed.

    Returns None if the stage is not a sweep, if no input changed, if no task has finished, or if
    the tasks cannot be read. Unreadable tasks are reported when the attempt starts.
    """
    from reconciler.files.freshness import find_changed_inputs  # needed only before a stage starts

    changed = find_changed_inputs(root, state, [stage.id]).get(stage.id)
    if not changed:
        return None
    try:
        tasks = get_stage_tasks(root, state, stage).read()
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
        cores_per_task(state, stage),
    )
