"""What to do next: the commands that lead on from a state."""

from __future__ import annotations

from typing import NamedTuple

from lifecycle.retry import retry_limit
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow


class NextAction(NamedTuple):
    """A command and why one would call it."""

    command: str
    reason: str


def next_actions(state: Workflow) -> list[NextAction]:
    """Return what leads on, the most urgent first."""
    if state.workflow_status == "completed":
        return [NextAction("wfctl log", "the workflow is completed; this is its history")]
    found = [
        NextAction(f"wfctl amend show {amendment.id}", "a person's decision is pending")
        for amendment in state.pending_amendments
    ]
    found += [
        NextAction("wfctl drift show", f"{drift.file} was changed by hand: adopt or revert it")
        for drift in state.drifts
    ]
    for stage in state.stages.values():
        found += _of_stage(state, stage)
    return found


def _of_stage(state: Workflow, stage: Stage) -> list[NextAction]:
    attempt = stage.open_attempt
    match stage.status:
        case Status.PENDING | Status.INVALIDATED if not state.unmet(stage):
            return [NextAction(f"wfctl stage ready {stage.id}", "nothing holds it back")]
        case Status.READY:
            return [NextAction(f"wfctl dispatch {stage.id}", f"{stage.id} is ready")]
        case Status.PREPARING if attempt is None:
            return [NextAction(f"wfctl dispatch {stage.id}", f"{stage.id} is being prepared")]
        case Status.PREPARING | Status.RUNNING:
            return [NextAction(f"wfctl wait {stage.id}", f"{stage.id} is running")]
        case Status.POST_PROCESSING:
            return [NextAction(f"wfctl stage complete {stage.id}", "its outputs wait for a check")]
        case Status.FAILED:
            return [_failed(state, stage)]
    return []


def _failed(state: Workflow, stage: Stage) -> NextAction:
    limit = retry_limit(state.backend_type(stage))
    if stage.retry_count >= limit:
        reason = f"{stage.id} failed and used up its {limit} retries; a person decides"
        return NextAction(f"wfctl show {stage.id}", reason)
    reason = f"{stage.id} failed ({stage.retry_count} of {limit} retries used)"
    return NextAction(f'wfctl stage retry {stage.id} --fix "…"', reason)
