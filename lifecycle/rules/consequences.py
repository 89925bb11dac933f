"""What follows by itself: charges, readied and blocked stages, a completed workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from lifecycle.payload import models as p
from lifecycle.state.budget import charges
from lifecycle.state.retry import retry_limit
from lifecycle.state.status import BLOCKING, Status
from lifecycle.state.workflow import Stage, Workflow

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_HELD = frozenset({Status.PENDING, Status.INVALIDATED})
_WAITING = _HELD | {Status.READY, Status.FAILED}


def consequences(state: Workflow, at: str) -> list[Payload]:
    """Return what is due in ``state`` at ``at`` and was not recorded yet, in array order."""
    found: list[Payload] = [*charges(state)]
    for stage in state.stages.values():
        if stage.status in _WAITING:
            found += _of_stage(state, stage)
    if state.is_finished and state.workflow_status != "completed":
        from lifecycle.state.completion import report_path  # a workflow is completed once

        report = report_path(state, at)
        found.append(p.WorkflowCompleted(stages=len(state.stages), report=report))
    return found


def _of_stage(state: Workflow, stage: Stage) -> list[Payload]:
    if stage.status is Status.FAILED:
        return _of_failed(state, stage)
    if stage.status in _HELD and not state.unmet(stage):
        return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]
    return [
        p.StageBlocked(
            stage=stage.id,
            dependency=dep,
            dependency_status=cast("Literal['failed', 'skipped']", status.value),
        )
        for dep in stage.depends_on
        if (status := state.stages[dep].status) in BLOCKING
        and stage.blocked_by.get(dep) != status
        and state.stages[dep].rerun_by is None
    ]


def _of_failed(state: Workflow, stage: Stage) -> list[Payload]:
    """A failed stage runs again by itself only where an approved amendment says so."""
    if stage.rerun_by is None or state.unmet(stage):
        return []
    rerun = state.amendments[stage.rerun_by].kind == "stage_rerun"
    reason = f"{'rerun' if rerun else 'superseded'} by {stage.rerun_by}"
    # What a person agreed to when no retry was left begins with all of them.
    reset = rerun or stage.retry_count >= retry_limit(state.backend_type(stage))
    return [
        p.StageReadied(stage=stage.id, reason=reason, reset=reset, amendment=stage.rerun_by),
    ]
