"""Describe how a loop ended: completed, blocked, or stopped by a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lifecycle.state.conditions import Hindrance, find_hindrances
from lifecycle.state.session_budget import maximum_session_cost
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import GO_ON
from projections.words.text import NextAction
from reconciler.loop.agent import Agent


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """The end of a loop: the reason as a keyword and as a sentence, and the final state.

    ``exit_reason`` is completed, blocked, budget_exhausted, or waiting. Waiting means that a job
    still runs or that a stop was requested. ``next`` describes the next step of the user.
    """

    exit_reason: str
    message: str
    next: str
    state: Workflow
    #: Obstacles of stages that the loop noticed but did not record in the log.
    seen: tuple[Hindrance, ...] = ()

    @property
    def hindrances(self) -> list[Hindrance]:
        """Return the obstacles that a person must remove before all stages can continue."""
        return _collect_hindrances(self.state, self.seen) if self.exit_reason != "completed" else []

    def actions(self, known: list[NextAction]) -> list[NextAction]:
        """Return the next commands for the user, from the commands that the state allows.

        If the loop can continue, the command that continues it is added.
        """
        if self.exit_reason not in ("budget_exhausted", "waiting"):
            return known
        others = [action for action in known if action.command != GO_ON]
        goes_on = NextAction(GO_ON, "continue in a new session")
        # Obstacles come first, because the user should remove them before continuing.
        return [*others, goes_on] if self.hindrances else [goes_on, *others]

    def __str__(self) -> str:
        """Return one line for each obstacle, and a last line with the reason for the end."""
        if self.exit_reason == "blocked" and self.hindrances:
            return "\n".join(f"blocked: {one}" for one in self.hindrances)
        return "\n".join([*map(str, self.hindrances), f"{self.exit_reason}: {self.message}"])

    def to_dict(self) -> dict[str, Any]:
        """Return the end of the loop as plain JSON values."""
        session = self.state.session
        return {
            "exit_reason": self.exit_reason,
            "message": self.message,
            "session": session.count,
            "cost": session.cost,
            "budget": maximum_session_cost(self.state),
            "blocked": [{**one.to_dict(), "may_pass": one.may_pass} for one in self.hindrances],
            "report": self.state.report if self.exit_reason == "completed" else None,
        }


def build_completed_end(state: Workflow) -> LoopEnd:
    """Return the `LoopEnd` of a workflow in which no work is left."""
    skipped = any(stage.status is Status.SKIPPED for stage in state.stages.values())
    number = len(state.stages)
    every = "the only stage is" if number == 1 else f"all {number} stages are"
    text = f"{every} completed{' or skipped' if skipped else ''}"
    waiting_for = ", ".join(amendment.id for amendment in state.pending_amendments)
    text += f"; {waiting_for} still waits for a person's decision" if waiting_for else ""
    return LoopEnd("completed", text, "nothing, the workflow is completed", state)


def build_blocked_end(state: Workflow, seen: Sequence[Hindrance] = ()) -> LoopEnd:
    """Return the `LoopEnd` of a workflow in which no stage can run without a person.

    It contains the blocked stages, the reasons and the steps that remove the obstacles.
    """
    found = _collect_hindrances(state, seen)
    unfinished = (f"{stage.id} is {stage.status.value}" for stage in state.stages.values())
    message = ". ".join(map(str, found)) or "; ".join(unfinished)
    help_ = found[0].unblock if found else "`wfctl status`"
    return LoopEnd("blocked", message, help_, state, tuple(seen))


def _collect_hindrances(state: Workflow, seen: Sequence[Hindrance]) -> list[Hindrance]:
    """Return the obstacles in the log, and those that the loop noticed for other stages."""
    told = find_hindrances(state)
    named = {hindrance.stage for hindrance in told}
    return [*told, *(hindrance for hindrance in seen if hindrance.stage not in named)]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a loop.

    ``time_limit`` is in seconds, and ``max_parallel`` is the number of stages that may run at a
    time. ``served`` states that the background runner started the loop. Such a loop starts no work
    while the file ``PAUSE`` exists. ``report`` is the path of the completion report relative to the
    root, or None for the default path. ``first_tasks`` is the number of tasks of each
    sweep that must succeed before its other tasks start, or None if only the plan decides.
    ``is_attended`` states that a person at a terminal started
    the loop. The budget of the session then prevents no stage from starting.
    """

    agent: Agent | None = None
    max_parallel: int = 1
    time_limit: float | None = None
    served: bool = False
    report: str | None = None
    first_tasks: int | None = None
    is_attended: bool = False
