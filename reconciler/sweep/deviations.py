"""Check whether the outputs of finished tasks still match their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE
from projections.words.account import Deviation
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import find_deviations
from reconciler.sweep.tasks import Task, find_changed_outputs, read_mark, tasks_of
from service.root.folder_entries import is_file, is_folder


def find_all_deviations(
    root: Path, state: Workflow, *, only: Iterable[str] | None = None
) -> list[Deviation]:
    """Return all changed results of completed stages and of their tasks.

    Every file is read completely. ``only`` names the stages to check.
    """
    ids = [*state.stages] if only is None else [*only]
    found = find_deviations(root, state, deep=True, only=ids)
    for stage in map(state.stage, ids):
        found += _find_task_deviations(root, state, stage)
    return found


def _find_task_deviations(root: Path, state: Workflow, stage: Stage) -> Iterator[Deviation]:
    """Yield results of finished tasks that were changed or belong to another task.

    If the tasks of the stage cannot be read, yields nothing, because the check of the stage's own
    results reports the problem.
    """
    if stage.status is not Status.COMPLETED or stage.completed_at is None:
        return
    attempt = stage.source.id if stage.source else None
    with suppress(Refused, ReconcilerError):
        for path, kind in find_changed_outputs(root, state, stage):
            yield Deviation(stage.id, attempt, "result", path, kind, stage.completed_at)


def find_tasks_with_results(root: Path, state: Workflow, ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the keys of the finished tasks whose results exist, by sweep.

    Only sizes are compared here. The digests are compared when an attempt starts. A sweep whose
    tasks cannot be read is omitted.
    """
    found: dict[str, set[str]] = {}
    for stage in map(state.stage, ids):
        with suppress(Refused, ReconcilerError, OSError):
            tasks = tasks_of(root, state, stage)
            found[stage.id] = {t.point.key for t in tasks if _has_outputs_in_place(root, stage, t)}
    return found


def _has_outputs_in_place(root: Path, stage: Stage, task: Task) -> bool:
    """Return whether a task has finished and its outputs exist with the recorded sizes."""
    folder = root / stage.id / DONE / task.point.folder
    if not task.is_kept and read_mark(folder) is None:
        return False
    sizes = dict.fromkeys(stage.work.task_rules.outputs)
    sizes |= {str(one["path"]): one["size"] for one in task.outputs}
    return is_folder(folder) and all(_has_size(folder / path, size) for path, size in sizes.items())


def _has_size(place: Path, size: int | None) -> bool:
    if not is_file(place):  # the size of a folder is that of its files
        return is_folder(place)
    return size is None or place.stat().st_size == size
