"""What waits for a person: decisions, hand edits, prose to judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow


class Wait(NamedTuple):
    """What waits: ``kind`` is amendment, drift, judgement or stop; ``text`` says what about it."""

    kind: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}: {self.text}"


def waits(state: Workflow) -> list[Wait]:
    """Return what waits for a person, decisions first."""
    return [*_decisions(state), *_of_stages(state)]


def _decisions(state: Workflow) -> Iterator[Wait]:
    for amendment in state.pending_amendments:
        from projections.words.amendments import summary

        yield Wait("amendment", amendment.id, f"{amendment.kind}: {summary(amendment)}")
    for drift in state.drifts:
        yield Wait("drift", drift.file, f"{drift.kind}; adopt or revert it")


def _of_stages(state: Workflow) -> Iterator[Wait]:
    stages = state.stages.values()
    for stage in stages:
        if _is_to_judge(stage):
            yield Wait("judgement", stage.id, stage.success_criteria)
    for stage in stages:
        if stage.attempts and stage.attempts[-1].is_to_stop:
            text = f"{stage.attempts[-1].id} is over and not seen to be stopped"
            yield Wait("stop", stage.id, text)


def _is_to_judge(stage: Stage) -> bool:
    """Whether only somebody's word can end it: its criteria are prose, and nothing checks them."""
    checked = bool(stage.parameters.get("verify"))
    return stage.status is Status.POST_PROCESSING and bool(stage.success_criteria) and not checked
