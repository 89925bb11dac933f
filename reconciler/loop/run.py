"""A session of the loop: begun by the resume protocol, driven, and ended with its reason.

What is done next, step by step, until nothing is left to do without anybody.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.conditions import (
    Hindrance,
    affords,
    after_refused_points,
    budget_of,
    has_results_kept,
    hindrance_of,
    is_short,
)
from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.rounds import LoopDefinition
from projections.files.sessions import sessions
from projections.screens.next_actions import GO_ON, Surroundings, bar
from projections.words.account import stale
from reconciler.context import Jobs
from reconciler.control.dispatch import dispatch
from reconciler.control.reconcile import GLANCE, Turn, is_beyond_help, is_due
from reconciler.control.rounds import begin_asked, is_asked
from reconciler.control.strangers import in_flight
from reconciler.errors import (
    AgentMissing,
    AgentNotStarted,
    EnvironmentNotReady,
    LaunchFailed,
    MachineUnreachable,
    ProgramMissing,
    ReconcilerError,
    words_of,
)
from reconciler.files.described import NoStageCommand, VerdictChanged, has_command
from reconciler.files.freshness import StaleStages, deviations, look, told, unrecorded
from reconciler.loop import prompt
from reconciler.loop.agent import AgentEnd, AgentTask, end_orphan, hand_over
from reconciler.loop.ending import Ended, Interruption, Orders, blocked, completed
from reconciler.loop.session import begin, check_report
from reconciler.submission.agreed import SubmissionChanged, SubmissionDrift
from reconciler.verdict.table import Action
from reconciler.verification.verify import settle
from service.consent.doubts import doubts_of
from service.errors import InvalidOption
from service.files.surroundings import PAUSE, edits
from service.root.disk import utc_text
from service.writing.amendments import check_edits_of_all
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Characters of what comes next that the log is told.
_NEXT = 1_000
#: Characters of a note that names what hinders a stage.
_NOTE = 2_000


def run(jobs: Jobs, orders: Orders, options: WriteOptions, asked: Interruption) -> Ended:
    """Drive the workflow as far as it goes without anybody, in one session.

    Whatever an earlier loop left in flight is taken up first; a session that somebody opened is
    gone on in. What keeps one stage from being carried out is its failure or its hindrance, and
    never the end of the others. Raises `AlreadyDriven` if another loop is at work,
    `InvalidOption` and `AlreadyThere` for a report that cannot go where it is asked for.
    """
    options = replace(options, content={"run": orders.report})
    jobs = jobs.acting_as("runner")
    with jobs.driving():
        first = jobs.service.first_answer(options)
        if first is not None:
            return _earlier(jobs, first)
        _look_at_results(jobs)
        if jobs.service.state().is_finished:
            return _close(jobs, completed(jobs.service.state()))
        for doubt in doubts_of(jobs.service.log.approvals, jobs.service.state()):
            jobs.say(doubt, level="warning")
        check_edits_of_all(jobs.service)
        session = jobs.service.state().session
        others = session.is_open and not session.driven
        if others and orders.report not in (None, session.report):
            raise InvalidOption(
                f"session {session.count} is open, and its report goes to "
                f"{session.report or 'the usual place'}; expected no other --report, found "
                f"{orders.report!r}. Leave it out, or end that session first: `wfctl session end`."
            )
        if not orders.served:
            # The runner looked before its first session: what lies there now came since.
            check_report(jobs, orders.report)
        end_orphan(jobs)
        _open(jobs, orders, options, asked)
        state = jobs.service.state()
        pending = (Status.PENDING, Status.INVALIDATED)
        held = [stage for stage in state.stages.values() if stage.status in pending]
        # In an imported workflow nobody may have made ready what nothing holds back. The others
        # follow from the first, in the same append.
        if free := next((stage for stage in held if not state.unmet(stage)), None):
            jobs.record(p.StageReadied(stage=free.id))
        try:
            return _close(jobs, WorkflowLoop(jobs, orders, asked).drive())
        except (ReconcilerError, Refused, NeedsConsent) as error:
            # What cannot be launched needs somebody; the session did not die of it.
            _close(jobs, Ended("blocked", error.message, error.message, jobs.service.state()))
            raise


def _look_at_results(jobs: Jobs) -> None:
    """Tell of results that changed, and of stale stages; raises `StaleStages` by policy."""
    state = jobs.service.state()
    found = deviations(jobs.root, state)
    for one in found:
        if one.what == "result":
            jobs.say(str(one), level="warning", stage=one.stage)
    news = unrecorded(jobs.service.root, state, found)
    if news:
        jobs.record(*news)
    reasons = stale(state, found)
    policy = state.session_config.get("stale", "tell")
    if not reasons:
        return
    if policy == "stop":
        raise StaleStages(reasons, "session_config.stale is stop: rerun them, or put it back.")
    if policy == "rerun" and not state.pending_amendments:
        first, *also = dict.fromkeys(one.stage for one in found if one.is_changed_input)
        words = f"rerun {', '.join([first, *also])}"
        jobs.record(
            p.AmendmentProposed(
                kind="stage_rerun",
                stage=first,
                also=also,
                description=words,
                reason=told(reasons)[:_NEXT],
            )
        )
        raise StaleStages(reasons, "A rerun is proposed; `wfctl amend approve` agrees to it.")
    jobs.say(told(reasons), level="warning")


def _earlier(jobs: Jobs, first: Outcome) -> Ended:
    """Return how the run of this command id ended before."""
    number = next(event.data.get("number", event.session) for event in reversed(first.events))
    state = jobs.service.state()
    for session in sessions(jobs.service.log.steps()):
        if session.number == number:
            text = f"this run was made before, as session {session.number}; nothing was done"
            return Ended(session.end, text, session.next or "", state)
    return completed(state)


def without_commands(jobs: Jobs) -> list[str]:
    """Return the stages that are left, where none of them says what to run; else nothing.

    Where others do, one that does not is a hindrance of its own. A workflow that was imported may
    have had its submissions prepared stage after stage: it goes on until one is missing.
    """
    state = jobs.service.state()
    if state.import_end:
        return []
    begun = {*FINISHED, Status.POST_PROCESSING}
    left = [stage for stage in state.stages.values() if stage.status not in begun]
    return [] if any(has_command(jobs.root, stage) for stage in left) else [one.id for one in left]


def _open(jobs: Jobs, orders: Orders, options: WriteOptions, asked: Interruption) -> None:
    """Begin a session, or go on in the one that somebody opened by hand."""
    session = jobs.service.state().session
    if session.is_open and not session.driven:
        note = p.NoteLogged(text=f"The loop goes on in session {session.count}")
        jobs.tell(jobs.service.handle(note, options=options))
        return
    try:
        begin(jobs, options, report=orders.report, driven=True)
    except EnvironmentNotReady as error:
        if orders.agent is None or asked.signal is not None:
            raise
        # Whether the agent puts right what ``init.sh`` asks for, ``init.sh`` says.
        script, said = error.data["script"], error.data["output"]
        text = prompt.for_environment(jobs.service.state(), jobs.root, script, said)
        task = AgentTask(None, prompt.ENVIRONMENT, text)
        hand_over(jobs, orders.agent, task, lambda: asked.signal is not None)
        begin(jobs, replace(options, expected_version=None), report=orders.report, driven=True)


def _close(jobs: Jobs, ended: Ended) -> Ended:
    """End the session, and see that a completed workflow has its report."""
    state = jobs.service.state()
    seen = None
    if ended.exit_reason == "completed":
        seen = look(jobs.service.root, jobs.service.log, state)
        reasons = stale(state, seen.deviations)
        ended = replace(ended, message=f"{ended.message}; {told(reasons)}") if reasons else ended
    session = state.session
    if session.is_open:
        command = p.SessionEnded.model_validate(
            {"reason": ended.exit_reason, "next": ended.next[:_NEXT]}
        )
        # What keeps a blocked workflow from going on, and no event tells.
        untold = [one for one in ended.hindrances if one in ended.seen]
        named = (f"Session ending: blocked. {one}"[:_NOTE] for one in untold)
        jobs.record(*(p.NoteLogged(text=text) for text in named), command)
    state = jobs.service.state()
    jobs.service.write_report(state, seen)
    return replace(ended, state=state)


#: What no stage can be carried out with: the session ends at once.
_OF_THE_ROOT = (AgentMissing, AgentNotStarted, ProgramMissing)
#: What may be otherwise soon, and says nothing of the stage.
_PASSING = (LaunchFailed, MachineUnreachable, OSError)
#: Seconds to wait before a hindered stage is tried again: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: Characters of an error that a stage's failure and a hindrance hold.
_ERROR = 10_000
_REASON = 500

Mark = tuple[str, str, int, int]
"""What changes when a stage moves: id, status, attempts, retries."""
Asked = tuple[str, int, int, str]
"""What changes when other points may be taken: loop, round, plan version, end of the round."""


def _asked_of(state: Workflow, name: str) -> Asked:
    loop = state.loops[name].round
    return (name, loop.number, state.version, str(loop.ended_at))


def _of_refused_points(loop: LoopDefinition, why: str) -> Hindrance:
    command, _ = after_refused_points(loop, why)
    unblock = f"`{command}`, or `wfctl round stop {loop.name} --reason TEXT`"
    return Hindrance(loop.asked, why, unblock, command, ("TEXT",))


def _mark_of(stage: Stage) -> Mark:
    return (stage.id, stage.status.value, len(stage.attempts), stage.retry_count)


class WorkflowLoop:
    """One run of the loop. What is left to somebody is remembered by where the stage stood."""

    def __init__(self, jobs: Jobs, orders: Orders, asked: Interruption) -> None:
        self.jobs = jobs
        self.orders = orders
        self.asked = asked
        self._left: set[Mark] = set()
        self._lost: set[Mark] = set()
        self._turns: dict[tuple[str, str], Turn] = {}
        #: When a stage is tried again whose hindrance may pass, by where the stage stood.
        self._retries: dict[Mark, Turn] = {}
        self._hindrances: dict[Mark, Hindrance] = {}
        #: Loop and round whose next points may not be computed, and why.
        self._refused: dict[Asked, str] = {}
        limit = orders.time_limit
        self._deadline = None if limit is None else time.monotonic() + limit

    def drive(self) -> Ended:
        """Go on step by step until nothing is left; somebody else's steps are taken as they are."""
        state = self.jobs.service.state()
        while (ended := self._step(state)) is None:
            # It is folded anew only if the log has grown.
            log = self.jobs.service.log
            head = log.store.head(log.stream)
            if head is None or head.version != state.head:
                state = self.jobs.service.state()
        return ended

    def _tried(self, state: Workflow, stage: Stage, step: Callable[[], object]) -> None:
        """Carry out a step of one stage; what keeps it from that keeps no other stage."""
        try:
            step()
        except _OF_THE_ROOT:
            raise
        except (Refused, NeedsConsent, ReconcilerError, OSError) as error:
            now = self.jobs.service.state()
            if now.head != state.head and isinstance(error, Refused | NeedsConsent):
                return  # decided on what is no more: a person or an agent acted in between
            self._hindered(now, stage.id, error)

    def _hindered(self, state: Workflow, id_: str, error: Exception) -> None:
        """Let a stage that cannot be carried out fail; or leave it, where that is not its fault."""
        stage = state.stages.get(id_)
        if stage is None:
            return
        text = words_of(error, self.jobs.root)[:_ERROR]
        computed = stage.status is Status.POST_PROCESSING
        category: p.Category = "unknown" if computed else "input"
        failure = p.StageFailed(stage=id_, error=text, category=category)
        if isinstance(error, (NeedsConsent, *_PASSING)) or stage.open_attempt is not None:
            may_pass = isinstance(error, _PASSING)
            self._leave(stage, text, f"correct the cause, then `{GO_ON}`", may_pass=may_pass)
        elif stage.status is Status.READY and not state.unmet(stage):
            self.jobs.record(p.StagePrepared(stage=id_), failure)
        elif stage.status is Status.PREPARING or computed:
            self.jobs.record(failure)
        else:
            self._leave(stage, text, "`wfctl rehydrate`")

    def _leave(self, stage: Stage, why: str, unblock: str, *, may_pass: bool = False) -> None:
        """Leave the stage as it stands to somebody, and remember why."""
        mark = _mark_of(stage)
        self._left.add(mark)
        said = " ".join(why.split()).removeprefix(f"{stage.id}: ")
        self._hindrances[mark] = Hindrance(stage.id, said[:_REASON], unblock, may_pass=may_pass)
        if may_pass:
            self._try_again_later(mark)

    def _try_again_later(self, mark: Mark) -> None:
        """Let the stage be tried again after a pause, as long as the loop has other work."""
        turn = self._retries.setdefault(mark, Turn(pause=_FIRST_PAUSE))
        turn.due = time.monotonic() + turn.pause
        turn.pause = min(2 * turn.pause, _LONGEST_PAUSE)

    def _named(self, state: Workflow) -> list[Hindrance]:
        """Return what was found to hinder stages that have not moved since."""
        marks = map(_mark_of, state.stages.values())
        loops = {_asked_of(state, name): state.loop(name) for name in state.loops}
        return [
            *(self._hindrances[mark] for mark in marks if mark in self._hindrances),
            *(
                _of_refused_points(loops[mark], why)
                for mark, why in self._refused.items()
                if mark in loops
            ),
        ]

    def _step(self, state: Workflow) -> Ended | None:
        """Do the next thing; return how the loop ends if there is nothing to do."""
        flying = [stage for stage in in_flight(state) if not self._is_left(stage)]
        if self._is_over():
            return self._given_up(state, flying)
        if self._settled_one(state, flying):
            return None
        paused = self.orders.served and (self.jobs.root / PAUSE).exists()
        if not paused and self._began_round(state):
            return None
        if not paused:
            ended, begun = self._begun_one(state, flying)
            if ended is not None or begun:
                return ended
        if flying or paused:
            self.jobs.waits(state, [stage.id for stage in flying])
            time.sleep(GLANCE)
            return None
        if state.is_finished:
            return completed(state)
        return blocked(state, self._named(state))

    def _began_round(self, state: Workflow) -> bool:
        """Begin a round of which a stage has said the points; return whether one began."""
        for name in state.loops:
            mark = _asked_of(state, name)
            if not is_asked(state, name) or mark in self._refused:
                continue
            try:
                begin_asked(self.jobs, name)
            except (Refused, ReconcilerError, NeedsConsent) as error:
                if self.jobs.service.state().head != state.head:
                    return True  # decided on what is no more
                self._refused[mark] = error.message[:_REASON]
                continue
            return True
        return False

    def _is_left(self, stage: Stage) -> bool:
        mark = _mark_of(stage)
        retry = self._retries.get(mark)
        return mark in self._left and (retry is None or time.monotonic() < retry.due)

    def _is_over(self) -> bool:
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self.asked.signal is not None

    def _given_up(self, state: Workflow, flying: list[Stage]) -> Ended:
        """End a session that leaves running jobs to the next one."""
        if state.is_finished:
            return completed(state)
        why = "somebody asked it to stop" if self.asked.signal else "its time is up"
        for stage in flying:
            text = "async job still running. Ending session for session-resume."
            self.jobs.record(p.NoteLogged(stage=stage.id, text=text))
        return Ended("waiting", why, f"`{GO_ON}`", state, tuple(self._named(state)))

    def _settled_one(self, state: Workflow, flying: list[Stage]) -> bool:
        """Record the end of one attempt that is over; return whether there was one."""

        def settle_attempt() -> None:
            if is_beyond_help(self.jobs, stage.id):
                mark, now = _mark_of(stage), self.jobs.service.state()
                self._left.add(mark)
                hindrance = hindrance_of(now, now.stage(stage.id))
                if hindrance is not None and hindrance.may_pass:
                    self._try_again_later(mark)

        for stage in flying:
            turn = self._turns.setdefault((stage.id, stage.attempts[-1].id), Turn())
            if is_due(self.jobs, state, stage.id, turn):
                self._tried(state, stage, settle_attempt)
                return True
        return False

    def _begun_one(self, state: Workflow, flying: list[Stage]) -> tuple[Ended | None, bool]:
        """Begin the first thing, in array order, that may be; say whether something was.

        A job of which nothing is known, as its scheduler is silent, takes no other's place.
        """
        known = [stage for stage in flying if stage.attempts[-1].action != Action.UNKNOWN.value]
        for stage in state.stages.values():
            step = None if self._is_left(stage) else self._step_of(state, stage)
            if step is None:
                continue
            if stage.status is Status.READY:
                if len(known) >= self.orders.max_parallel:
                    continue
                if self._is_barred(state, stage):
                    continue
                if not affords(state, stage, flying):
                    return (None if flying else self._exhausted(state, stage)), False
            self._tried(state, stage, partial(step, state, stage))
            return None, True
        return None, False

    def _exhausted(self, state: Workflow, stage: Stage) -> Ended:
        cost, budget = state.session.cost, budget_of(state)
        text = f"the session's budget is used up (cost={cost:g}, budget={budget:g})"
        why, next_ = f"{text} before {stage.id}", f"{stage.id}: `{GO_ON}`"
        return Ended("budget_exhausted", why, next_, state, tuple(self._named(state)))

    def _is_barred(self, state: Workflow, stage: Stage) -> bool:
        """Whether something beside the rules keeps the stage; it is remembered for as long.

        What lies on the disk the dispatch itself looks at.
        """
        edited = edits(self.jobs.service.root, state, self.jobs.service.log)
        now = utc_text(self.jobs.service.clock())
        around = Surroundings(edited=edited, prepared=frozenset(state.stages), now=now)
        found, mark = bar(state, stage, around), _mark_of(stage)
        if found is None:
            self._hindrances.pop(mark, None)
            return False
        self._hindrances[mark] = found.to_hindrance(stage.id)
        return True

    def _step_of(self, state: Workflow, stage: Stage) -> Callable[[Workflow, Stage], object] | None:
        """Return what can be done for the stage now, None if nothing can."""
        agent = self.orders.agent
        match stage.status:
            case Status.POST_PROCESSING:
                return self._verify
            case Status.READY | Status.PREPARING if not state.pending_amendments:
                if stage.open_attempt is not None or state.unmet(stage):
                    return None
                return self._launch if has_command(self.jobs.root, stage) else self._compute
            case Status.FAILED if agent is not None and not state.pending_amendments:
                used_up = stage.retry_count >= retry_limit(state.backend_type(stage))
                return None if used_up else partial(self._hand_over, prompt.REPAIR)
        return None

    def _verify(self, state: Workflow, stage: Stage) -> None:
        try:
            settle(self.jobs, stage)
        except (SubmissionDrift, SubmissionChanged, VerdictChanged):
            raise  # no judge decides on what was computed, or by which scripts
        except NeedsConsent:
            if self.orders.agent is None:
                self._left.add(_mark_of(stage))
            else:
                self._hand_over(prompt.JUDGE, state, stage)

    def _launch(self, state: Workflow, stage: Stage) -> None:
        if has_results_kept(stage):
            from reconciler.verification.reuse import taken  # of no use if nothing was computed

            if taken(self.jobs, stage.id) is not None:
                return
        dispatch(self.jobs, stage.id, sync=is_short(state, stage), options=WriteOptions())

    def _compute(self, state: Workflow, stage: Stage) -> None:
        if self.orders.agent is None:
            why = f"{NoStageCommand([stage.id]).why}, and there is no agent"
            change = f"wfctl amend propose --stage {stage.id} --set parameters.command=COMMAND"
            self._leave(stage, why, f"an agent (`{GO_ON} --agent CMD`) or a command (`{change}`)")
            return
        left = self._hand_over(prompt.COMPUTE, state, stage)
        if left is None:
            return
        error = f"agent {self.orders.agent.name} {left} without having moved the stage"
        begun = [p.StagePrepared(stage=stage.id)] if stage.status is Status.READY else []
        self.jobs.record(*begun, p.StageFailed(stage=stage.id, error=f"{error} ({left.output})"))

    def _hand_over(self, kind: str, state: Workflow, stage: Stage) -> AgentEnd | None:
        """Give the stage to the agent; return how it ended where the stage has not moved.

        An agent that was lost through no fault of its own is started once more. What is not
        moved by a repair or a judgement is left to somebody.
        """
        agent = self.orders.agent
        if agent is None:
            return None
        log = self.jobs.service.log
        tries = prompt.tries_of(log, stage.id) if stage.retry_count else []
        failure = prompt.said_of_failure(log, stage.id) if kind == prompt.REPAIR else None
        text = prompt.render(kind, state, stage, self.jobs.root, tries, failure)
        task = AgentTask(stage.id, kind, text)
        left = hand_over(self.jobs, agent, task, self._is_over)
        self.jobs.service.files.take_in()
        now, mark = self.jobs.service.state(), _mark_of(stage)
        still = now.stages.get(stage.id)
        if still is None or _mark_of(still) != mark or now.pending_amendments or self._is_over():
            return None
        if left.was_lost and mark not in self._lost:
            self._lost.add(mark)
            return None
        if kind != prompt.COMPUTE:
            self._left.add(mark)
        return left
