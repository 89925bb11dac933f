"""How a loop ends: a reason, what it means, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lifecycle.budget import budget_of
from lifecycle.hindrance import Hindrance, hindrances
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow
from projections.next_actions import NextAction, next_actions

#: The next session's command.
GO_ON = "wfctl run"


@dataclass(frozen=True, slots=True)
class Ended:
    """Why the loop ended, in a word and in a sentence, and the state it left.

    ``exit_reason``: completed, blocked, budget_exhausted, waiting (a job is still running, or
    somebody asked it to stop). ``next`` is what comes next, in words.
    """

    exit_reason: str
    message: str
    next: str
    state: Workflow

    @property
    def hindrances(self) -> list[Hindrance]:
        """What keeps a blocked workflow from going on."""
        return hindrances(self.state) if self.exit_reason == "blocked" else []

    @property
    def actions(self) -> list[NextAction]:
        """The commands that lead on."""
        known = next_actions(self.state)
        if self.exit_reason in ("budget_exhausted", "waiting"):
            return [NextAction(GO_ON, "goes on in a new session"), *known]
        return known

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        session = self.state.session
        return {
            "exit_reason": self.exit_reason,
            "message": self.message,
            "session": session.count,
            "cost": session.cost,
            "budget": budget_of(self.state),
            "blocked": [found.to_dict() for found in self.hindrances],
            "report": self.state.report if self.exit_reason == "completed" else None,
        }


def completed(state: Workflow) -> Ended:
    """Return the end of a workflow of which nothing is left to do."""
    skipped = any(stage.status is Status.SKIPPED for stage in state.stages.values())
    text = f"all {len(state.stages)} stages are completed{' or skipped' if skipped else ''}"
    return Ended("completed", text, "nothing, the workflow is completed", state)


def blocked(state: Workflow) -> Ended:
    """Return the end of a workflow that waits for somebody: which stage, why, what would help."""
    found = hindrances(state)
    message = ". ".join(map(str, found)) or _unfinished(state)
    return Ended("blocked", message, found[0].unblock if found else "`wfctl status`", state)


def _unfinished(state: Workflow) -> str:
    return "; ".join(f"{stage.id} is {stage.status.value}" for stage in state.stages.values())


def exhausted(state: Workflow, stage: Stage) -> Ended:
    """Return the end of a session that cannot afford the next stage."""
    cost, budget = state.session.cost, budget_of(state)
    text = f"the session's budget is used up (cost={cost:g}, budget={budget:g}) before {stage.id}"
    return Ended("budget_exhausted", text, f"{stage.id}: `{GO_ON}`", state)


def waiting(state: Workflow, why: str) -> Ended:
    """Return the end of a session that leaves running jobs to the next one."""
    return Ended("waiting", why, f"`{GO_ON}`", state)
