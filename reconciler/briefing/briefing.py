"""What somebody who knows nothing needs to go on: plain values, without the time of day.

The same log and the same disk give the same briefing: every time in it was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.state.conditions import budget_of
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import is_due
from projections.words.amendments import summary
from projections.words.came_about import Item, counts_of, line_of
from projections.words.text import NextAction
from reconciler.briefing.contradictions import BriefPart, Contradiction, in_json
from service.questions.meanwhile import Happened

#: `reconciler.verdict.table.Action.WAIT`, whose module is only needed where there is a finding.
_WAIT = "wait"


@dataclass(frozen=True, slots=True)
class BriefVerdict(BriefPart):
    """A verdict and the stages whose attempts of this id it was said of."""

    stages: tuple[str, ...]
    attempt: str
    verdict: str
    action: str
    row: int | None = None
    reason: str | None = None
    ended_at: str | None = None
    evidence: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair(BriefPart):
    """What was recorded or started again, and for which stages."""

    stages: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefWaiting(BriefPart):
    """What waits for a person: ``kind`` is amendment, drift, judgement, stop, failure or launch."""

    kind: str
    subjects: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefCriteria(BriefPart):
    """By which words a stage that is under way, failed or due is judged; how far its tasks are."""

    stage: str
    criteria: str
    tasks: str = ""


@dataclass(frozen=True, slots=True)
class Briefing:
    """One screen for a new session. ``since`` is the last act of a person, an agent or a session,
    ``meanwhile`` what followed; ``decided`` and ``noted`` are the last decision of a person and the
    last note of anybody; ``left_out`` says what was cut for brevity.
    """

    workflow: str
    purpose: str | None
    status: str
    version: int
    last_recorded: str
    counts: dict[str, int]
    session: dict[str, Any]
    stages: tuple[dict[str, Any], ...]
    since: Happened | None
    meanwhile: tuple[Happened, ...]
    found: tuple[BriefVerdict, ...]
    contradictions: tuple[Contradiction, ...]
    repaired: tuple[Repair, ...]
    waiting: tuple[BriefWaiting, ...]
    actions: tuple[NextAction, ...]
    judged: tuple[BriefCriteria, ...] = ()
    decided: str | None = None
    noted: Happened | None = None
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the next actions stand beside them."""
        told = {name: in_json(getattr(self, name)) for name in self.__slots__ if name != "actions"}
        return {**told, "stages": list(self.stages)}


def counts(state: Workflow) -> dict[str, int]:
    """Return how many stages stand where, in the order of the array."""
    return dict(Counter(stage.status.value for stage in state.stages.values()))


def session_of(state: Workflow) -> dict[str, Any]:
    """Return the newest session; open without an end it may have died."""
    session = state.session
    return {
        "number": session.count,
        "started_at": session.id,
        "cost": session.cost,
        "budget": budget_of(state),
        "exit_reason": session.exit_reason,
        "open": session.is_open,
    }


def judged_of(state: Workflow) -> Iterator[BriefCriteria]:
    """Yield by which words the stages are judged that are under way, failed or due."""
    for stage in state.stages.values():
        if stage.status not in (*ACTIVE, Status.FAILED) and not is_due(state, stage):
            continue
        seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
        tasks = line_of(counts_of(seen)) if seen is not None else ""
        if stage.success_criteria or tasks:
            yield BriefCriteria(stage.id, stage.success_criteria or "", tasks)


def decision_of(state: Workflow) -> str | None:
    """Return the last decision of a person on an amendment or on the plan, in words."""
    decided = [one for one in state.amendments.values() if one.decided_at is not None]
    if not decided:
        return None
    last = max(decided, key=lambda one: str(one.decided_at))
    by = f" by {last.approved_by}" if last.approved_by else ""
    return f"{last.id} {last.status}{by}: {summary(last)}"


def under_way(stage: Stage) -> BriefVerdict | None:
    """Return the stage's open attempt as the log alone knows it."""
    attempt = stage.open_attempt
    if attempt is None or stage.status not in (Status.PREPARING, Status.RUNNING):
        return None
    name = attempt.verdict or ("LAUNCHED" if attempt.launched_at else "STARTED")
    action = attempt.action or _WAIT
    reason = attempt.reason or "as the log has it"
    return BriefVerdict((stage.id,), attempt.id, name, action, attempt.row, reason)


def waiting_of(items: Iterable[Item]) -> list[BriefWaiting]:
    """Return what of an account waits for a person, decisions first."""
    return [
        BriefWaiting(one.kind, (one.subject,), one.text)
        for one in items
        if one.person and not _is_unfit(one)
    ]


def contradictions_of(items: Iterable[Item]) -> list[Contradiction]:
    """Return what of an account does not fit what was recorded: results, and what rests on them."""
    return [Contradiction(one.kind, (one.subject,), one.text) for one in items if _is_unfit(one)]


def _is_unfit(one: Item) -> bool:
    return one.is_of_files and one.kind != "drift"
