"""Compare the outputs of finished tasks with their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.words.account import Deviation
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import deviations
from reconciler.sweep.tasks import changed_outputs


def all_deviations(
    root: Path, state: Workflow, *, only: Iterable[str] | None = None
) -> list[Deviation]:
    """Return the deviations of completed stages and of their tasks; read each file whole.

    ``only`` names the stages to look at.
    """
    ids = [*state.stages] if only is None else [*only]
    found = deviations(root, state, deep=True, only=ids)
    for stage in map(state.stage, ids):
        found += _of_tasks(root, state, stage)
    return found


def _of_tasks(root: Path, state: Workflow, stage: Stage) -> Iterator[Deviation]:
    """Yield the results of finished tasks that are not as recorded, or are those of another task.

    Tasks that cannot be read yield nothing: the stage's own results show that.
    """
    is_completed = stage.status is Status.COMPLETED and is_sweep(stage.parameters)
    if not is_completed or stage.completed_at is None:
        return
    attempt = stage.source.id if stage.source else None
    with suppress(Refused, ReconcilerError):
        for path, kind in changed_outputs(root, state, stage):
            yield Deviation(stage.id, attempt, "result", path, kind, stage.completed_at)
