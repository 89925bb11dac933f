"""Finished tasks that the next attempt of a sweep computes again, told before it starts."""

from __future__ import annotations

from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.words.text import told_span
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError


def warn_of_recomputation(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Say which finished tasks the next attempt of a stage computes again; write nothing."""
    if text := describe_recomputation(jobs.root, state, stage):
        jobs.say(text, level="warning", stage=stage.id)


def describe_recomputation(root: Path, state: Workflow, stage: Stage) -> str | None:
    """Return which finished tasks a new attempt computes again because an input changed.

    The sentence names the files, the number of tasks and the time that they took. None if the
    stage has no map, if no input changed since the newest attempt, if no task has finished, or if
    the tasks cannot be read: the attempt itself reports that.
    """
    if not (is_sweep(stage.parameters) and stage.attempts):
        return None
    from reconciler.files.freshness import changed_inputs  # only if a stage has tasks
    from reconciler.sweep.tasks import tasks_of

    changed = changed_inputs(root, state, [stage.id]).get(stage.id)
    if not changed:
        return None
    try:
        finished = [task for task in tasks_of(root, state, stage) if task.is_kept]
    except (Refused, ReconcilerError, OSError):
        return None
    if not finished:
        return None
    spent = sum((task.ended or 0) - (task.started or task.ended or 0) for task in finished) / 1e6
    tasks = "1 finished task is" if len(finished) == 1 else f"{len(finished):,} finished tasks are"
    attempt = stage.attempts[-1].id
    return (
        f"{', '.join(changed)} changed since {attempt} started: {tasks} computed again "
        f"({told_span(spent)} of computing until now)"
    )
