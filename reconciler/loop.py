"""The loop: what is done next, step by step, until nothing is left to do without anybody."""

from __future__ import annotations

import time
from collections.abc import Callable

from lifecycle import payload as p
from lifecycle.budget import affords
from lifecycle.errors import NeedsConsent, Refused
from lifecycle.retry import retry_limit
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow
from reconciler import ending, prompt
from reconciler.agent import Left, Task, hand_over
from reconciler.dispatch import dispatch, has_command
from reconciler.ending import Ended
from reconciler.finding import in_flight
from reconciler.interruption import Interruption
from reconciler.jobs import Jobs
from reconciler.orders import PAUSE, Orders
from reconciler.verdict import Action
from reconciler.verify import settle
from reconciler.waiting import GLANCE, Turn, is_due, wait
from service.service import WriteOptions

#: Seconds below which a local stage that says how long it takes is run synchronously.
_SYNC_BELOW = 120

Mark = tuple[str, str, int, int]
"""What changes when a stage moves: id, status, attempts, retries."""


def mark_of(stage: Stage) -> Mark:
    """Return where the stage stands, so that it can be told whether it moved."""
    return (stage.id, stage.status.value, len(stage.attempts), stage.retry_count)


class Loop:
    """One run of the loop. What is left to somebody is remembered by where the stage stood."""

    def __init__(self, jobs: Jobs, orders: Orders, asked: Interruption) -> None:
        self.jobs = jobs
        self.orders = orders
        self.asked = asked
        self._left: set[Mark] = set()
        self._lost: set[Mark] = set()
        self._turns: dict[tuple[str, str], Turn] = {}
        limit = orders.time_limit
        self._deadline = None if limit is None else time.monotonic() + limit

    def drive(self) -> Ended:
        """Go on step by step until there is none; somebody else's steps are taken as they are."""
        state: Workflow | None = None
        while True:
            state = self._now(state)
            try:
                ended = self._step(state)
            except Refused:
                # What was decided on is no more: a person or an agent acted in between.
                if self.jobs.service.state().head == state.head:
                    raise
                continue
            if ended is not None:
                return ended

    def _now(self, known: Workflow | None) -> Workflow:
        """Return the state; it is folded anew only where the log has grown."""
        log = self.jobs.service.log
        head = log.store.head(log.stream)
        if known is not None and head is not None and head.version == known.head:
            return known
        return self.jobs.service.state()

    def _step(self, state: Workflow) -> Ended | None:
        """Do the next thing; return how the loop ends where there is none."""
        flying = [stage for stage in in_flight(state) if not self._is_left(stage)]
        if self._is_over():
            return self._given_up(state, flying)
        if self._settled_one(state, flying):
            return None
        paused = self.orders.served and (self.jobs.root / PAUSE).exists()
        if not paused:
            ended, begun = self._begun_one(state, flying)
            if ended is not None or begun:
                return ended
        if flying or paused:
            time.sleep(GLANCE)
            return None
        return ending.completed(state) if state.is_finished else ending.blocked(state)

    def _is_left(self, stage: Stage) -> bool:
        return mark_of(stage) in self._left

    def _is_over(self) -> bool:
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self.asked.signal is not None

    def _given_up(self, state: Workflow, flying: list[Stage]) -> Ended:
        why = "somebody asked it to stop" if self.asked.signal else "its time is up"
        for stage in flying:
            text = "async job still running. Ending session for session-resume."
            self.jobs.record(p.NoteLogged(stage=stage.id, text=text))
        return ending.waiting(state, why)

    def _settled_one(self, state: Workflow, flying: list[Stage]) -> bool:
        """Record the end of one attempt that is over; False where none is."""
        for stage in flying:
            if self._is_due(state, stage):
                finding = wait(self.jobs, stage.id, timeout=0)
                unknown = finding is not None and finding.verdict.action is Action.UNKNOWN
                if finding is not None and unknown and finding.evidence.silence is None:
                    self._left.add(mark_of(stage))
                return True
        return False

    def _is_due(self, state: Workflow, stage: Stage) -> bool:
        turn = self._turns.setdefault((stage.id, stage.attempts[-1].id), Turn())
        return is_due(self.jobs, state, stage.id, turn)

    def _begun_one(self, state: Workflow, flying: list[Stage]) -> tuple[Ended | None, bool]:
        """Begin the first thing, in array order, that may be; say whether something was."""
        for stage in state.stages.values():
            step = None if self._is_left(stage) else self._step_of(state, stage)
            if step is None:
                continue
            if stage.status is Status.READY:
                if len(flying) >= self.orders.max_parallel:
                    continue
                if not affords(state, stage, flying):
                    return (None if flying else ending.exhausted(state, stage)), False
            step(state, stage)
            return None, True
        return None, False

    def _step_of(self, state: Workflow, stage: Stage) -> Callable[[Workflow, Stage], None] | None:
        """Return what can be done for the stage now, None where that is nothing."""
        agent = self.orders.agent
        match stage.status:
            case Status.POST_PROCESSING:
                return self._verify
            case Status.READY | Status.PREPARING if not state.pending_amendments:
                if stage.open_attempt is not None:
                    return None
                return self._launch if has_command(self.jobs, stage) else self._compute
            case Status.FAILED if agent is not None and not state.pending_amendments:
                used_up = stage.retry_count >= retry_limit(state.backend_type(stage))
                return None if used_up else self._repair
        return None

    def _verify(self, state: Workflow, stage: Stage) -> None:
        try:
            settle(self.jobs, stage)
        except NeedsConsent:
            if self.orders.agent is None:
                self._left.add(mark_of(stage))
            else:
                self._hand_over(prompt.JUDGE, state, stage)

    def _launch(self, state: Workflow, stage: Stage) -> None:
        dispatch(self.jobs, stage.id, sync=_is_short(state, stage), options=WriteOptions())

    def _repair(self, state: Workflow, stage: Stage) -> None:
        self._hand_over(prompt.REPAIR, state, stage)

    def _compute(self, state: Workflow, stage: Stage) -> None:
        if self.orders.agent is None:
            self._left.add(mark_of(stage))
            return
        left = self._hand_over(prompt.COMPUTE, state, stage)
        if left is None:
            return
        error = f"agent {self.orders.agent.name} {left} without having moved the stage"
        begun = [p.StagePrepared(stage=stage.id)] if stage.status is Status.READY else []
        self.jobs.record(*begun, p.StageFailed(stage=stage.id, error=f"{error} ({left.output})"))

    def _hand_over(self, kind: str, state: Workflow, stage: Stage) -> Left | None:
        """Give the stage to the agent; return how it ended where the stage has not moved.

        An agent that was lost through no fault of its own is started once more. What is not
        moved by a repair or a judgement is left to somebody.
        """
        agent = self.orders.agent
        if agent is None:
            return None
        task = Task(stage.id, kind, prompt.render(kind, state, stage, self.jobs.root))
        left = hand_over(self.jobs, agent, task, self._is_over)
        self.jobs.service.files.take_in()
        now, mark = self.jobs.service.state(), mark_of(stage)
        still = now.stages.get(stage.id)
        if still is None or mark_of(still) != mark or now.pending_amendments or self._is_over():
            return None
        if left.was_lost and mark not in self._lost:
            self._lost.add(mark)
            return None
        if kind != prompt.COMPUTE:
            self._left.add(mark)
        return left


def _is_short(state: Workflow, stage: Stage) -> bool:
    expected = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and isinstance(expected, int | float) and expected < _SYNC_BELOW
