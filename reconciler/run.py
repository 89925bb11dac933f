"""The loop: one stage after another, until the workflow is completed or waits for somebody."""

from __future__ import annotations

from dataclasses import dataclass

from lifecycle import payload as p
from lifecycle.errors import NeedsConsent
from lifecycle.status import FINISHED, Status
from lifecycle.workflow import Stage, Workflow
from reconciler.dispatch import NoStageCommand, dispatch, has_command
from reconciler.jobs import Jobs
from reconciler.reconcile import in_flight, wait
from reconciler.verdict import Action
from reconciler.verify import settle
from service.service import WriteOptions

#: Seconds below which a stage that says how long it takes is run synchronously.
_SYNC_BELOW = 120


@dataclass(frozen=True, slots=True)
class Ended:
    """Why the loop ended, in a word and in a sentence, and the state it left."""

    exit_reason: str
    message: str
    state: Workflow


def run(jobs: Jobs) -> Ended:
    """Drive the workflow as far as it goes without anybody.

    Whatever an earlier loop left in flight is taken up first. Raises `NoStageCommand` before
    anything is launched where a stage says nothing to run, `AlreadyDriven` where another loop
    is at work.
    """
    with jobs.driving():
        _check_commands(jobs)
        _resolve(jobs.acting_as("runner"))
        return _drive(jobs.acting_as("runner"))


def _resolve(jobs: Jobs) -> None:
    """Make ready what nothing holds back; in an imported workflow nobody may have done so."""
    state = jobs.service.state()
    for stage in state.stages.values():
        if stage.status in (Status.PENDING, Status.INVALIDATED) and not state.unmet(stage):
            # The others follow from it, in the same append.
            jobs.record(p.StageReadied(stage=stage.id))
            return


def _drive(jobs: Jobs) -> Ended:
    while True:
        state = jobs.service.state()
        try:
            ended = _step(jobs, state)
        except NeedsConsent as waiting:
            return Ended("blocked", waiting.message, jobs.service.state())
        if ended is not None:
            return ended


def _check_commands(jobs: Jobs) -> None:
    stages = jobs.service.state().stages.values()
    silent = [
        stage.id
        for stage in stages
        if stage.status not in FINISHED
        and stage.status is not Status.POST_PROCESSING
        and not has_command(jobs, stage)
    ]
    if silent:
        raise NoStageCommand(silent)


def _step(jobs: Jobs, state: Workflow) -> Ended | None:
    """Do the next thing; return how the loop ends where there is none."""
    flying = in_flight(state)
    if flying:
        return _follow(jobs, flying[0])
    for stage in state.stages.values():
        if stage.status is Status.POST_PROCESSING:
            settle(jobs, stage)
            return None
    for stage in state.stages.values():
        if stage.status in (Status.READY, Status.PREPARING):
            dispatch(jobs, stage.id, sync=_is_short(stage), options=WriteOptions())
            return None
    return _ended(state)


def _is_short(stage: Stage) -> bool:
    expected = stage.parameters.get("expected_seconds")
    return isinstance(expected, int | float) and expected < _SYNC_BELOW


def _follow(jobs: Jobs, stage: Stage) -> Ended | None:
    """Wait for the stage's attempt and record what became of it."""
    finding = wait(jobs, stage.id)
    if finding is None or finding.verdict.action is not Action.UNKNOWN:
        return None
    message = f"{stage.id}: nothing is known of {finding.attempt}: {finding.verdict.reason}"
    return Ended("blocked", message, jobs.service.state())


def _ended(state: Workflow) -> Ended:
    if state.is_finished:
        return Ended("completed", f"all {len(state.stages)} stages are completed", state)
    held = [
        f"{stage.id} is {stage.status.value}" + (f" ({stage.last_error})" if _broken(stage) else "")
        for stage in state.stages.values()
        if stage.status not in FINISHED
    ]
    return Ended("blocked", "; ".join(held), state)


def _broken(stage: Stage) -> bool:
    return stage.status is Status.FAILED
