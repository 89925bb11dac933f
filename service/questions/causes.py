"""Why a stage stands where it stands: from its status back to the root, event by event.

Each thing is said once: what led to several stages stands with the first of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from lifecycle.rules.impact import acting_on
from lifecycle.state.status import BLOCKING, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.amendments import held
from service.questions.grounds import CauseGrounds, CauseLink
from service.reading.log import At, WorkflowLog


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a stage stands where it stands.

    ``chain`` holds what led to the status, through every parent, from the newest event to the
    root; ``waits_for`` says the same of every stage that holds it back, through others too: each
    once, the nearest first, and of those equally near the ones that will not come by themselves.
    A link that stands further up is left out.
    """

    stage: str
    status: str
    sentence: str
    chain: list[CauseLink]
    waits_for: list[Causes]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def causes_of(log: WorkflowLog, *stages: str, at: At = None) -> list[Causes]:
    """Return the causes of the status of each of the stages; raises `UnknownStage`."""
    state = log.current(at)
    found = [state.stage(stage) for stage in stages]
    grounds = CauseGrounds()
    for event, after in log.steps(upto=at) if found else ():
        grounds.see(event, after)
    told: set[int] = set()
    return [_causes(state, stage, grounds, told) for stage in found]


def _causes(state: Workflow, stage: Stage, grounds: CauseGrounds, told: set[int]) -> Causes:
    first = _alone(state, stage, grounds, told)
    waits_for = [_alone(state, one, grounds, told) for one in _holding(state, stage)]
    return replace(first, waits_for=waits_for)


def _alone(state: Workflow, stage: Stage, grounds: CauseGrounds, told: set[int]) -> Causes:
    """Return the causes of one stage without those in ``told``, which take theirs in."""
    if stage.status is Status.READY:
        grounds.renew(stage)
    sentence = _sentence(stage, _unmet(state, stage), acting_on(state).get(stage.id, []))
    return Causes(stage.id, stage.status.value, sentence, grounds.chain(stage.id, told), [])


def _holding(state: Workflow, stage: Stage) -> list[Stage]:
    """Return every stage that holds one back, however far: many ways may lead to each."""
    found = {stage.id: stage}
    waiting = deque([stage])
    while waiting:
        further = [one for one in _unmet(state, waiting.popleft()) if one.id not in found]
        found.update((one.id, one) for one in further)
        waiting.extend(further)
    return list(found.values())[1:]


def _unmet(state: Workflow, stage: Stage) -> list[Stage]:
    """Return what holds a stage back, those that will not come by themselves first."""
    if stage.status not in (Status.PENDING, Status.INVALIDATED, Status.READY):
        return []
    found = [state.stages[dependency] for dependency in state.unmet(stage)]
    return sorted(found, key=lambda one: one.status not in BLOCKING)


def _sentence(stage: Stage, unmet: list[Stage], acting: list[str]) -> str:
    text = f"{stage.id} ({stage.name}) is {stage.status.value}"
    if unmet:
        waits = ", ".join(f"{one.id}, which is {one.status.value}" for one in unmet)
        return f"{text}: it waits for {waits}"
    if stage.status is Status.READY and acting:
        return f"{text}, and {held(acting)}"
    if stage.status is Status.FAILED and stage.last_error:
        return f"{text}: {' '.join(stage.last_error.split())}"
    return text
