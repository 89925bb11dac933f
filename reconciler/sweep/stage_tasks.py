"""Access to the tasks of a stage, with the same methods for sweeps and for plain stages.

`NoTasks` is for a stage without tasks and `StageTasks` for a sweep, so that callers need not
distinguish them. The modules that read tasks are slow to import, and are imported only for a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep

if TYPE_CHECKING:
    from lifecycle.payload import models as p
    from projections.words.stage_progress import StageProgress
    from reconciler.attempt.paths import AttemptPaths
    from reconciler.sweep.tasks import Task
    from reconciler.verdict.diagnosis import Diagnosis
    from reconciler.verdict.table import Verdict

Record: TypeAlias = "Callable[[p.TasksObserved], Workflow]"
"""Records a command in the log, and returns the resulting state."""


@dataclass(frozen=True, slots=True)
class NoTasks:
    """The implementation for a plain stage, which has no tasks.

    Its attempts are submitted and judged as a whole.
    """

    root: Path
    state: Workflow
    stage: Stage

    def read(self) -> Sequence[Task]:
        """Return the tasks in the order in which they start.

        Raises any error of `points_of`. A plain stage has no tasks.
        """
        return ()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of tasks. Raises any error of `points_of`."""
        return []

    def count(self, *, live: bool) -> dict[str, int] | None:
        """Return the number of tasks by state, or None if no task is known.

        With ``live``, the tasks on the disk are counted, otherwise the tasks in the log.
        """
        return None

    def measure(self, now: datetime) -> StageProgress:
        """Return the progress of the stage, from the tasks on the disk if it has tasks."""
        from projections.words.stage_progress import compute_stage_progress

        return compute_stage_progress(self.stage, now)

    def describe_start(self, counts: Mapping[str, int] | None) -> str | None:
        """Return a sentence on the tasks that must succeed first, or None if all may start.

        ``counts`` is the result of `count`.
        """
        return None

    def check_points(self) -> None:
        """Check the points of a sweep: raise the error that a new attempt would raise for them."""

    def assign(
        self,
        attempt: AttemptPaths,
        given: dict[str, Any],
        inputs: Sequence[p.FileDigest],
        recovers: str | None,
        first: int | None,
    ) -> tuple[dict[str, Any], int | None]:
        """Write the tasks of a new attempt into its folder.

        Returns the submission that runs them, and their number. For a plain stage, returns the
        given submission and None.
        """
        return given, None

    def close_ended(self, record: Record) -> Workflow:
        """Record the tasks of attempts that were stopped, and return the new state."""
        return self.state

    def progress(self, attempt: AttemptPaths) -> Sequence[p.TasksObserved]:
        """Return the command that records the progress of the tasks.

        Returns no command if not enough tasks have ended since the last record.
        """
        return ()

    def judge(self, attempt: AttemptPaths, found: Verdict) -> Verdict:
        """Return the verdict on an attempt, given the verdict ``found`` on its jobs.

        For a plain stage, both are the same.
        """
        return found

    def diagnose(self, found: Diagnosis) -> Diagnosis:
        """Return the diagnosis of an attempt, given the diagnosis ``found`` of its jobs.

        For a plain stage, both are the same.
        """
        return found


@dataclass(frozen=True, slots=True)
class StageTasks:
    """The implementation for a sweep, a stage with one task per point.

    The class `NoTasks` describes the methods.
    """

    root: Path
    state: Workflow
    stage: Stage

    def read(self) -> Sequence[Task]:
        """Return the tasks, in the order in which they start."""
        from reconciler.sweep.tasks import tasks_of

        return tasks_of(self.root, self.state, self.stage)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table of tasks."""
        from reconciler.sweep.table import rows_of

        return rows_of(self.stage.id, self.read())

    def count(self, *, live: bool) -> dict[str, int] | None:
        """Return the number of tasks by status."""
        from reconciler.sweep.tasks import count_tasks

        return count_tasks(self.root, self.state, self.stage, live=live)

    def measure(self, now: datetime) -> StageProgress:
        """Return the progress of the stage, from the tasks on the disk."""
        from reconciler.sweep.tasks import measure_progress

        return measure_progress(self.root, self.state, self.stage, now)

    def describe_start(self, counts: Mapping[str, int] | None) -> str | None:
        """Return a sentence on the tasks that must succeed first, or None if all may start."""
        from reconciler.sweep.first_tasks import describe_start

        return describe_start(self.root, self.state, self.stage, counts)

    def check_points(self) -> None:
        """Check the points of a sweep: raise the error that a new attempt would raise for them."""
        from reconciler.sweep.map_points import points_of

        points_of(self.root, self.state, self.stage, anew=True)

    def assign(
        self,
        attempt: AttemptPaths,
        given: dict[str, Any],
        inputs: Sequence[p.FileDigest],
        recovers: str | None,
        first: int | None,
    ) -> tuple[dict[str, Any], int | None]:
        """Write the tasks of a new attempt into its folder.

        Returns the submission that runs them, and the number of tasks to compute.
        """
        from reconciler.sweep.assignment import count_tasks_to_compute, write_task_assignment

        given = write_task_assignment(
            self.root, self.state, self.stage, attempt, given, inputs, recovers, first
        )
        return given, count_tasks_to_compute(attempt)

    def close_ended(self, record: Record) -> Workflow:
        """Record the tasks of attempts that were stopped, and return the new state."""
        from reconciler.sweep.judge_tasks import close_tasks, find_unclosed_attempts

        state = self.state
        for ended in find_unclosed_attempts(self.root, state, self.stage):
            state = record(close_tasks(state, state.stage(self.stage.id), ended, stopped=True))
        return state

    def progress(self, attempt: AttemptPaths) -> Sequence[p.TasksObserved]:
        """Return the command that records the progress of the tasks.

        Returns no command if not enough tasks have ended since the last record.
        """
        from reconciler.sweep.judge_tasks import build_progress_commands

        return build_progress_commands(self.state, self.stage, attempt)

    def judge(self, attempt: AttemptPaths, found: Verdict) -> Verdict:
        """Return the verdict on an attempt, given the verdict on its jobs.

        When no process of the attempt runs any more, its tasks decide.
        """
        from reconciler.sweep.judge_tasks import judge_tasks

        return judge_tasks(self.state, self.stage, attempt, found)

    def diagnose(self, found: Diagnosis) -> Diagnosis:
        """Return the diagnosis of an attempt, based on its failed tasks."""
        from reconciler.sweep.judge_tasks import diagnose_failed_tasks

        return diagnose_failed_tasks(found, self.root, self.state, self.stage)


def get_stage_tasks(root: Path, state: Workflow, stage: Stage) -> NoTasks | StageTasks:
    """Return access to the tasks of a stage, for a sweep or for a plain stage."""
    return (StageTasks if is_sweep(stage.parameters) else NoTasks)(root, state, stage)
