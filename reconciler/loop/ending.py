"""How a loop ends, is interrupted, and waits for its log."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from eventstore.errors import StoreUnreachable
from lifecycle.state.conditions import Hindrance, budget_of, hindrances
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import GO_ON
from projections.words.text import NextAction
from reconciler.context import Jobs
from reconciler.loop.agent import Agent


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
    #: What the loop found to hinder stages, and the log does not tell.
    seen: tuple[Hindrance, ...] = ()

    @property
    def hindrances(self) -> list[Hindrance]:
        """What waits for somebody, and keeps the workflow, or a part of it, from going on."""
        return _hindering(self.state, self.seen) if self.exit_reason != "completed" else []

    def actions(self, known: list[NextAction]) -> list[NextAction]:
        """Return the commands that lead on, given those that lead on from its state."""
        if self.exit_reason not in ("budget_exhausted", "waiting"):
            return known
        others = [action for action in known if action.command != GO_ON]
        goes_on = NextAction(GO_ON, "goes on in a new session")
        # What failed is told first, and so is what leads on from it.
        return [*others, goes_on] if self.hindrances else [goes_on, *others]

    def __str__(self) -> str:
        """Return what is told: what failed and what waits for somebody, then why it ended."""
        first = [] if self.exit_reason == "blocked" else [f"{one}\n" for one in self.hindrances]
        return f"{''.join(first)}{self.exit_reason}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        session = self.state.session
        return {
            "exit_reason": self.exit_reason,
            "message": self.message,
            "session": session.count,
            "cost": session.cost,
            "budget": budget_of(self.state),
            "blocked": [{**one.to_dict(), "may_pass": one.may_pass} for one in self.hindrances],
            "report": self.state.report if self.exit_reason == "completed" else None,
        }


def completed(state: Workflow) -> Ended:
    """Return the end of a workflow of which nothing is left to do."""
    skipped = any(stage.status is Status.SKIPPED for stage in state.stages.values())
    text = f"all {len(state.stages)} stages are completed{' or skipped' if skipped else ''}"
    waiting_for = ", ".join(amendment.id for amendment in state.pending_amendments)
    text += f"; {waiting_for} still waits for a person's decision" if waiting_for else ""
    return Ended("completed", text, "nothing, the workflow is completed", state)


def blocked(state: Workflow, seen: Sequence[Hindrance] = ()) -> Ended:
    """Return the end of a workflow that waits for somebody: which stage, why, what would help."""
    found = _hindering(state, seen)
    unfinished = (f"{stage.id} is {stage.status.value}" for stage in state.stages.values())
    message = ". ".join(map(str, found)) or "; ".join(unfinished)
    help_ = found[0].unblock if found else "`wfctl status`"
    return Ended("blocked", message, help_, state, tuple(seen))


def _hindering(state: Workflow, seen: Sequence[Hindrance]) -> list[Hindrance]:
    """Return what the log tells of, and what was seen of other stages."""
    told = hindrances(state)
    named = {hindrance.stage for hindrance in told}
    return [*told, *(hindrance for hindrance in seen if hindrance.stage not in named)]


#: A terminal or a tmux session that goes away hangs up.
_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interruption:
    """Whether somebody asked, and by which signal; a second signal is not waited for."""

    signal: int | None = None

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Take down a first signal; raises `KeyboardInterrupt` for a second one."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Take SIGTERM, SIGINT and SIGHUP as a wish to stop, for as long as the block lasts.

    What is ignored already (nohup) stays ignored.
    """
    asked = Interruption()
    heard = [number for number in _ASKING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked.ask) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: Seconds for which a loop asks again, and after which it is first said.
_BOUND, _FIRST = 600.0, 2.0


def patience(jobs: Jobs, asked: Interruption) -> Callable[[StoreUnreachable, float], bool]:
    """Return what says whether a server is asked again that is away for so many seconds.

    It is not once somebody asked the loop to stop. It is said at growing intervals.
    """
    due = _FIRST

    def asks_again(error: StoreUnreachable, away: float) -> bool:
        nonlocal due
        due = _FIRST if away < _FIRST else due
        goes_on = away < _BOUND and asked.signal is None
        if goes_on and away >= due:
            due = 2 * away
            text = (
                f"waiting for the log: {error.path} has given no answer for {away:.0f} s "
                f"({error.reason}); asking again for {_BOUND:.0f} s at the most"
            )
            jobs.say(text, level="warning")
        return goes_on

    return asks_again


@dataclass(frozen=True, slots=True)
class Orders:
    """How the loop works: ``time_limit`` in seconds, ``max_parallel`` stages at a time.

    ``served``: the runner started it; it begins nothing while the file ``PAUSE`` exists.
    ``report``: where a report of completion is to go, relative to the root, None for the usual
    place.
    """

    agent: Agent | None = None
    max_parallel: int = 1
    time_limit: float | None = None
    served: bool = False
    report: str | None = None
