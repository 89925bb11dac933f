"""Run one session of the loop: start it, take step after step, and end it with a reason.

The loop ends when no step is possible without a person.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.conditions import (
    PLAN_CAUSE,
    Hindrance,
    advise_after_rejected_points,
    find_stage_hindrance,
    is_ready_with_earlier_results,
)
from lifecycle.state.session_budget import (
    can_afford_stage,
    is_foreground_stage,
    maximum_session_cost,
)
from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.rounds import LoopDefinition
from projections.files.sessions import list_sessions
from projections.screens.next_actions import GO_ON, Surroundings, find_start_obstacle
from projections.words.account import find_stale_stages
from reconciler.context import JobContext
from reconciler.control.dispatch import dispatch_stage
from reconciler.control.judge_attempts import UnloggedAttemptRunning, find_stages_in_flight
from reconciler.control.reconcile import (
    POLL_INTERVAL,
    StageCheckSchedule,
    is_check_due,
    settle_and_is_waiting_useless,
)
from reconciler.control.rounds import begin_proposed_round, is_round_due
from reconciler.errors import (
    AgentMissing,
    AgentNotStarted,
    EnvironmentNotReady,
    LaunchFailed,
    MachineUnreachable,
    ProgramMissing,
    ReconcilerError,
    format_error_message,
    is_fault_of_plan,
)
from reconciler.files.changed_scripts import find_changed_scripts
from reconciler.files.described_submission import NoStageCommand, has_command_or_submission
from reconciler.files.freshness import (
    StaleStages,
    build_change_records,
    find_deviations,
    find_log_differences,
    format_stale_stages,
)
from reconciler.files.script_consent import VerdictChanged
from reconciler.loop import prompt
from reconciler.loop.agent import AgentEnd, AgentTask, run_agent_task, stop_orphan
from reconciler.loop.end_loop import LoopEnd, SessionOptions, build_blocked_end, build_completed_end
from reconciler.loop.session import begin_session, check_report_path_free
from reconciler.loop.stop_request import StopRequest
from reconciler.submission.compare_submission import SubmissionChanged, SubmissionDrift
from reconciler.verdict.table import Action
from reconciler.verification.verify import verify_and_record_stage
from service.consent.consent_weaknesses import list_consent_weaknesses
from service.errors import InvalidOption
from service.files.plan_file_record import find_edited_plan_file
from service.files.stage_obstacles import PAUSE, find_manual_edits
from service.root.atomic_files import utc_text
from service.writing.stream_writer import WriteOptions
from service.writing.undecided_edits import check_run_can_continue
from service.writing.workflow_service import Outcome

#: Maximum number of characters of the next step in the event that ends a session.
_MAX_NEXT_LENGTH = 1_000
#: Maximum number of characters of a note about the obstacle of a stage.
_MAX_NOTE_LENGTH = 2_000


def run_loop(
    jobs: JobContext, orders: SessionOptions, options: WriteOptions, asked: StopRequest
) -> LoopEnd:
    """Run the workflow in one session as far as possible without a person.

    The loop first continues running work of an earlier loop, and uses a session that a person
    opened. If a stage cannot run, its failure or obstacle is recorded and the other stages
    continue. Raises `AlreadyDriven` if another loop is running, `NeedsConsent` while the plan waits
    for its approval, and `InvalidOption` or `AlreadyThere` if the report cannot be written to the
    requested path.
    """
    options = options._replace(content={"run": orders.report})
    jobs = jobs.acting_as("runner")
    with jobs.lock_workflow_loop():
        first = jobs.service.first_answer(options)
        if first is not None:
            return _find_earlier_end(jobs, first)
        _warn_about_edited_plan_file(jobs)
        _report_changed_results(jobs)
        if jobs.service.state().is_finished:
            return _close_session(jobs, build_completed_end(jobs.service.state()))
        state = jobs.service.state()
        scripts = (f"{one.subject}: {one.text}" for one in find_changed_scripts(jobs.root, state))
        for doubt in (*list_consent_weaknesses(jobs.service.log.approvals, state), *scripts):
            jobs.say(doubt, level="warning")
        check_run_can_continue(jobs.service)
        session = jobs.service.state().session
        others = session.is_open and not session.driven
        if others and orders.report not in (None, session.report):
            raise InvalidOption(
                f"the option --report {orders.report!r} cannot be used, because session "
                f"{session.count} is open and writes its report to "
                f"{session.report or 'the usual place'}. Leave --report out, or end that session "
                "first with `wfctl session end`."
            )
        if not orders.served:
            # The runner has made this check before its first session. A report that exists now may
            # come from an earlier session of the same runner.
            check_report_path_free(jobs, orders.report)
        stop_orphan(jobs)
        _open_session(jobs, orders, options, asked)
        state = jobs.service.state()
        pending = (Status.PENDING, Status.INVALIDATED)
        held = [stage for stage in state.stages.values() if stage.status in pending]
        # In an imported workflow, a stage may be pending although it has no unmet dependencies.
        # Recording one such stage as ready also updates the others.
        if free := next((stage for stage in held if not state.unmet_dependencies(stage)), None):
            jobs.record(p.StageReadied(stage=free.id))
        try:
            return _close_session(jobs, WorkflowLoop(jobs, orders, asked).drive())
        except (ReconcilerError, Refused, NeedsConsent) as error:
            # An error such as a failed launch needs a person. The session is closed, so that it
            # does not look like a crash.
            _close_session(
                jobs, LoopEnd("blocked", error.message, error.message, jobs.service.state())
            )
            raise


def _warn_about_edited_plan_file(jobs: JobContext) -> None:
    for item in find_edited_plan_file(jobs.service.root):
        jobs.say(str(item), level="warning")


def _report_changed_results(jobs: JobContext) -> None:
    """Print warnings about changed results and outdated stages, and record new changes.

    Raises `StaleStages` if the workflow is configured to stop because of outdated stages.
    """
    state = jobs.service.state()
    found = find_deviations(jobs.root, state)
    for one in found:
        if one.what == "result":
            jobs.say(str(one), level="warning", stage=one.stage)
    news = build_change_records(jobs.service.root, state, found)
    if news:
        jobs.record(*news)
    reasons = find_stale_stages(state, found)
    policy = state.session_config.get("stale", "tell")
    if not reasons:
        return
    if policy == "stop":
        raise StaleStages(
            reasons,
            "wfctl starts no stage, because session_config.stale is 'stop'. Run the stale stages "
            "again with `wfctl rerun`, or restore the old files.",
        )
    if policy == "rerun" and not state.pending_amendments:
        first, *also = dict.fromkeys(one.stage for one in found if one.is_changed_input)
        words = f"rerun {', '.join([first, *also])}"
        jobs.record(
            p.AmendmentProposed(
                kind="stage_rerun",
                stage=first,
                also=also,
                description=words,
                reason=format_stale_stages(reasons)[:_MAX_NEXT_LENGTH],
            )
        )
        raise StaleStages(
            reasons,
            "wfctl proposed to run these stages again. To approve the proposal, run `wfctl amend "
            "approve`.",
        )
    jobs.say(format_stale_stages(reasons), level="warning")


def _find_earlier_end(jobs: JobContext, first: Outcome) -> LoopEnd:
    """Return the end of the session that an earlier call with the same command id ran."""
    number = next(event.data.get("number", event.session) for event in reversed(first.events))
    state = jobs.service.state()
    for session in list_sessions(jobs.service.log.steps()):
        if session.number == number:
            text = f"this command was already run as session {session.number}; nothing was done"
            return LoopEnd(session.end, text, session.next or "", state)
    return build_completed_end(state)


def find_stages_without_command(jobs: JobContext) -> list[str]:
    """Return the ids of the remaining stages if none of them has a command.

    Otherwise returns an empty list, because the stages with a command can run. The list is also
    empty for an imported workflow, which may have prepared submissions instead.
    """
    state = jobs.service.state()
    if state.import_end:
        return []
    begun = {*FINISHED, Status.POST_PROCESSING}
    left = [stage for stage in state.stages.values() if stage.status not in begun]
    return (
        []
        if any(has_command_or_submission(jobs.root, stage) for stage in left)
        else [one.id for one in left]
    )


def _open_session(
    jobs: JobContext, orders: SessionOptions, options: WriteOptions, asked: StopRequest
) -> None:
    """Start a session, or continue in a session that a person opened.

    If ``init.sh`` fails, an agent may correct the environment once.
    """
    session = jobs.service.state().session
    if session.is_open and not session.driven:
        note = p.NoteLogged(text=f"`wfctl run` continues in session {session.count}")
        jobs.tell(jobs.service.handle(note, options=options))
        return
    try:
        begin_session(jobs, options, report=orders.report, driven=True)
    except EnvironmentNotReady as error:
        if orders.agent is None or asked.signal is not None:
            raise
        # The agent gets one attempt to correct the environment. After that, ``init.sh`` runs again
        # and decides by its exit code.
        script, said = error.data["script"], error.data["output"]
        text = prompt.render_environment_prompt(jobs.service.state(), jobs.root, script, said)
        task = AgentTask(None, prompt.ENVIRONMENT, text)
        run_agent_task(jobs, orders.agent, task, lambda: asked.signal is not None)
        begin_session(
            jobs, options._replace(expected_version=None), report=orders.report, driven=True
        )


def _close_session(jobs: JobContext, ended: LoopEnd) -> LoopEnd:
    """Record the end of the session, write the report of the workflow, and return the end."""
    state = jobs.service.state()
    seen = None
    if ended.exit_reason == "completed":
        seen = find_log_differences(jobs.service.root, jobs.service.log, state)
        reasons = find_stale_stages(state, seen.deviations)
        ended = (
            replace(ended, message=f"{ended.message}; {format_stale_stages(reasons)}")
            if reasons
            else ended
        )
    session = state.session
    if session.is_open:
        command = p.SessionEnded.model_validate(
            {"reason": ended.exit_reason, "next": ended.next[:_MAX_NEXT_LENGTH]}
        )
        # Record obstacles that are not in the log yet, so that the user can find them later.
        untold = [one for one in ended.hindrances if one in ended.seen]
        named = (f"Session ending: blocked. {one}"[:_MAX_NOTE_LENGTH] for one in untold)
        jobs.record(*(p.NoteLogged(text=text) for text in named), command)
    state = jobs.service.state()
    jobs.service.write_report(state, seen)
    return replace(ended, state=state)


#: Errors after which no stage can run. The session ends immediately.
_FATAL_ERRORS = (AgentMissing, AgentNotStarted, ProgramMissing)
#: Errors that may disappear soon and are no fault of the stage.
_PASSING_ERRORS = (LaunchFailed, MachineUnreachable, UnloggedAttemptRunning, OSError)
#: First and longest pause, in seconds, before a stage with a passing obstacle is tried again.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
#: Maximum number of characters of the error text in a stage's failure or obstacle.
_MAX_ERROR_LENGTH = 10_000
_MAX_REASON_LENGTH = 500

StageMark = tuple[str, str, int, int]
"""Values that change when a stage moves: id, status, number of attempts and of retries."""
RoundMark = tuple[str, int, int, str]
"""Values that change when other points may be used: loop, round, plan version, end of round."""


def _round_mark(state: Workflow, name: str) -> RoundMark:
    loop = state.loops[name].round
    return (name, loop.number, state.version, str(loop.ended_at))


def _build_points_hindrance(loop: LoopDefinition, why: str) -> Hindrance:
    command, _ = advise_after_rejected_points(loop, why)
    unblock = f"`{command}`, or `wfctl round stop {loop.name} --reason TEXT`"
    return Hindrance(loop.points_source_stage, why, unblock, command, ("TEXT",))


def _stage_mark(stage: Stage) -> StageMark:
    return (stage.id, stage.status.value, len(stage.attempts), stage.retry_count)


class WorkflowLoop:
    """One run of the loop that drives a workflow.

    The loop remembers each stage that it left to a person, with the state of the stage at that
    time. The stage is tried again when its state changes.
    """

    def __init__(self, jobs: JobContext, orders: SessionOptions, asked: StopRequest) -> None:
        self.jobs = jobs
        self.orders = orders
        self.asked = asked
        self._left: set[StageMark] = set()
        self._lost: set[StageMark] = set()
        self._turns: dict[tuple[str, str], StageCheckSchedule] = {}
        #: For each state of a stage whose obstacle may pass, the time of the next try.
        self._retries: dict[StageMark, StageCheckSchedule] = {}
        self._hindrances: dict[StageMark, Hindrance] = {}
        #: For each round whose points may not be computed, the reason.
        self._refused: dict[RoundMark, str] = {}
        limit = orders.time_limit
        self._deadline = None if limit is None else time.monotonic() + limit

    def drive(self) -> LoopEnd:
        """Take one step after another until none is possible, and return the end.

        Other processes may change the state in between.
        """
        state = self.jobs.service.state()
        while (ended := self._take_step(state)) is None:
            # Computing the state is slow, so do it only if the log contains new events.
            log = self.jobs.service.log
            head = log.store.head(log.stream)
            if head is None or head.version != state.head:
                state = self.jobs.service.state()
        return ended

    def _try_step(self, state: Workflow, stage: Stage, step: Callable[[], object]) -> None:
        """Carry out a step of one stage. If the step fails, the other stages continue."""
        try:
            step()
        except _FATAL_ERRORS:
            raise
        except (Refused, NeedsConsent, ReconcilerError, OSError) as error:
            now = self.jobs.service.state()
            if now.head != state.head and isinstance(error, Refused | NeedsConsent):
                return  # a person or an agent changed the state in between
            self._handle_hindrance(now, stage.id, error)

    def _handle_hindrance(self, state: Workflow, id_: str, error: Exception) -> None:
        """Record that a stage failed because it cannot run.

        If the cause is not in the stage itself, the stage is left unchanged, and the reason is
        remembered.
        """
        stage = state.stages.get(id_)
        if stage is None:
            return
        text = format_error_message(error, self.jobs.root)[:_MAX_ERROR_LENGTH]
        computed = stage.status is Status.POST_PROCESSING
        category: p.Category = "unknown" if computed else "input"
        of_plan = stage.parameters.get("command") and is_fault_of_plan(error)
        because = f"{PLAN_CAUSE}{text}" if of_plan else None
        failure = p.StageFailed(stage=id_, error=text, category=category, because=because)
        if isinstance(error, (NeedsConsent, *_PASSING_ERRORS)) or stage.open_attempt is not None:
            may_pass = isinstance(error, _PASSING_ERRORS)
            self._leave_stage(stage, text, f"correct the cause, then `{GO_ON}`", may_pass=may_pass)
        elif stage.status is Status.READY and not state.unmet_dependencies(stage):
            self.jobs.record(p.StagePrepared(stage=id_), failure)
        elif stage.status is Status.PREPARING or computed:
            self.jobs.record(failure)
        else:
            self._leave_stage(stage, text, "`wfctl rehydrate`")

    def _leave_stage(self, stage: Stage, why: str, unblock: str, *, may_pass: bool = False) -> None:
        """Leave a stage unchanged, and remember the reason for the user.

        If the reason ``may_pass``, the stage is tried again later.
        """
        mark = _stage_mark(stage)
        self._left.add(mark)
        said = " ".join(why.split()).removeprefix(f"{stage.id}: ")
        self._hindrances[mark] = Hindrance(
            stage.id, said[:_MAX_REASON_LENGTH], unblock, may_pass=may_pass
        )
        if may_pass:
            self._try_again_later(mark)

    def _try_again_later(self, mark: StageMark) -> None:
        """Plan the next try of a stage after a pause, which grows with each try."""
        turn = self._retries.setdefault(mark, StageCheckSchedule(pause=_FIRST_PAUSE))
        turn.due = time.monotonic() + turn.pause
        turn.pause = min(2 * turn.pause, _LONGEST_PAUSE)

    def _list_hindrances(self, state: Workflow) -> list[Hindrance]:
        """Return the noticed obstacles that still apply, because the state is the same."""
        marks = map(_stage_mark, state.stages.values())
        loops = {_round_mark(state, name): state.loop(name) for name in state.loops}
        return [
            *(self._hindrances[mark] for mark in marks if mark in self._hindrances),
            *(
                _build_points_hindrance(loops[mark], why)
                for mark, why in self._refused.items()
                if mark in loops
            ),
        ]

    def _take_step(self, state: Workflow) -> LoopEnd | None:
        """Take the next step of the workflow.

        Returns None, or the end of the loop if no further step is possible.
        """
        flying = [stage for stage in find_stages_in_flight(state) if not self._is_left_aside(stage)]
        if self._must_end():
            return self._build_waiting_end(state, flying)
        if self._settle_ended_attempt(state, flying):
            return None
        paused = self.orders.served and (self.jobs.root / PAUSE).exists()
        if not paused and self._start_round(state):
            return None
        if not paused:
            ended, begun = self._start_next_stage(state, flying)
            if ended is not None or begun:
                return ended
        if flying or paused:
            self.jobs.waits(state, [stage.id for stage in flying])
            time.sleep(POLL_INTERVAL)
            return None
        if state.is_finished:
            return build_completed_end(state)
        return build_blocked_end(state, self._list_hindrances(state))

    def _start_round(self, state: Workflow) -> bool:
        """Start a round of a loop with points that a stage wrote, if one is due.

        Returns whether a round was started.
        """
        for name in state.loops:
            mark = _round_mark(state, name)
            if not is_round_due(state, name) or mark in self._refused:
                continue
            try:
                begin_proposed_round(self.jobs, name)
            except (Refused, ReconcilerError, NeedsConsent) as error:
                if self.jobs.service.state().head != state.head:
                    return True  # the state changed in between
                self._refused[mark] = error.message[:_MAX_REASON_LENGTH]
                continue
            return True
        return False

    def _is_left_aside(self, stage: Stage) -> bool:
        mark = _stage_mark(stage)
        retry = self._retries.get(mark)
        return mark in self._left and (retry is None or time.monotonic() < retry.due)

    def _must_end(self) -> bool:
        late = self._deadline is not None and time.monotonic() > self._deadline
        return late or self.asked.signal is not None

    def _build_waiting_end(self, state: Workflow, flying: list[Stage]) -> LoopEnd:
        """Return the end of a session that must stop while jobs may still run.

        The next session continues these jobs.
        """
        if state.is_finished:
            return build_completed_end(state)
        why = (
            "a user or the system asked the loop to stop"
            if self.asked.signal
            else "the time limit of the session is reached"
        )
        for stage in flying:
            text = "async job still running. Ending session for session-resume."
            self.jobs.record(p.NoteLogged(stage=stage.id, text=text))
        return LoopEnd("waiting", why, f"`{GO_ON}`", state, tuple(self._list_hindrances(state)))

    def _settle_ended_attempt(self, state: Workflow, flying: list[Stage]) -> bool:
        """Check one attempt that may have ended, and record its state.

        Returns whether an attempt was checked.
        """

        def settle_attempt() -> None:
            if settle_and_is_waiting_useless(self.jobs, stage.id):
                mark, now = _stage_mark(stage), self.jobs.service.state()
                self._left.add(mark)
                hindrance = find_stage_hindrance(now, now.stage(stage.id))
                if hindrance is not None and hindrance.may_pass:
                    self._try_again_later(mark)

        for stage in flying:
            turn = self._turns.setdefault((stage.id, stage.attempts[-1].id), StageCheckSchedule())
            if is_check_due(self.jobs, state, stage.id, turn):
                self._try_step(state, stage, settle_attempt)
                return True
        return False

    def _start_next_stage(
        self, state: Workflow, flying: list[Stage]
    ) -> tuple[LoopEnd | None, bool]:
        """Take the next step of the first stage, in plan order, that may start.

        Returns the end of the loop, or None, and whether a step was taken. A job whose scheduler
        does not answer does not count towards the limit of parallel stages.
        """
        known = [stage for stage in flying if stage.attempts[-1].action != Action.UNKNOWN.value]
        for stage in state.stages.values():
            step = None if self._is_left_aside(stage) else self._choose_stage_step(state, stage)
            if step is None:
                continue
            if stage.status is Status.READY:
                if len(known) >= self.orders.max_parallel:
                    continue
                if self._is_start_prevented(state, stage):
                    continue
                if not (self.orders.is_attended or can_afford_stage(state, stage, flying)):
                    return (None if flying else self._build_exhausted_end(state, stage)), False
            self._try_step(state, stage, partial(step, state, stage))
            return None, True
        return None, False

    def _build_exhausted_end(self, state: Workflow, stage: Stage) -> LoopEnd:
        cost, budget = state.session.cost, maximum_session_cost(state)
        text = f"the session's budget is used up (cost={cost:g}, budget={budget:g})"
        why, next_ = f"{text} before {stage.id}", f"{stage.id}: `{GO_ON}`"
        return LoopEnd("budget_exhausted", why, next_, state, tuple(self._list_hindrances(state)))

    def _is_start_prevented(self, state: Workflow, stage: Stage) -> bool:
        """Return whether something outside the rules prevents a stage from starting.

        Examples are manual edits that wait for a decision. The reason is remembered for the user.
        Input files are checked later, when the stage is dispatched.
        """
        edited = find_manual_edits(self.jobs.service.root, state, self.jobs.service.log)
        now = utc_text(self.jobs.service.clock())
        around = Surroundings(
            edited=edited,
            prepared=frozenset(state.stages),
            now=now,
            is_attended=self.orders.is_attended,
        )
        found, mark = find_start_obstacle(state, stage, around), _stage_mark(stage)
        if found is None:
            self._hindrances.pop(mark, None)
            return False
        self._hindrances[mark] = found.to_hindrance(stage.id)
        return True

    def _choose_stage_step(
        self, state: Workflow, stage: Stage
    ) -> Callable[[Workflow, Stage], object] | None:
        """Return the function that takes the next step of a stage, or None.

        None means that the stage has no step that the loop can take now.
        """
        agent = self.orders.agent
        match stage.status:
            case Status.POST_PROCESSING:
                return self._verify_stage
            case Status.READY | Status.PREPARING if not state.pending_amendments:
                if stage.open_attempt is not None or state.unmet_dependencies(stage):
                    return None
                return (
                    self._launch_stage
                    if has_command_or_submission(self.jobs.root, stage)
                    else self._compute_by_agent
                )
            case Status.FAILED if agent is not None and not state.pending_amendments:
                used_up = stage.retry_count >= retry_limit(state.backend_type(stage))
                return None if used_up else partial(self._run_agent_on_stage, prompt.REPAIR)
        return None

    def _verify_stage(self, state: Workflow, stage: Stage) -> None:
        try:
            verify_and_record_stage(self.jobs, stage)
        except (SubmissionDrift, SubmissionChanged, VerdictChanged):
            raise  # no judge may decide, because the results or their scripts are unknown
        except NeedsConsent:
            if self.orders.agent is None:
                self._left.add(_stage_mark(stage))
            else:
                self._run_agent_on_stage(prompt.JUDGE, state, stage)

    def _launch_stage(self, state: Workflow, stage: Stage) -> None:
        if is_ready_with_earlier_results(stage):
            from reconciler.verification.reuse import (
                reuse_if_configured,
            )  # not needed if nothing was computed

            if reuse_if_configured(self.jobs, stage.id) is not None:
                return
        dispatch_stage(
            self.jobs,
            stage.id,
            sync=is_foreground_stage(state, stage),
            options=WriteOptions(),
            first_tasks=self.orders.first_tasks,
        )

    def _compute_by_agent(self, state: Workflow, stage: Stage) -> None:
        if self.orders.agent is None:
            why = f"{NoStageCommand([stage.id]).why}, and there is no agent"
            change = f"wfctl amend propose --stage {stage.id} --set parameters.command=COMMAND"
            self._leave_stage(
                stage, why, f"an agent (`{GO_ON} --agent CMD`) or a command (`{change}`)"
            )
            return
        left = self._run_agent_on_stage(prompt.COMPUTE, state, stage)
        if left is None:
            return
        error = f"agent {self.orders.agent.name} {left} without changing the status of the stage"
        begun = [p.StagePrepared(stage=stage.id)] if stage.status is Status.READY else []
        self.jobs.record(*begun, p.StageFailed(stage=stage.id, error=f"{error} ({left.output})"))

    def _run_agent_on_stage(self, kind: str, state: Workflow, stage: Stage) -> AgentEnd | None:
        """Give a stage to the agent as a task.

        Returns None if the agent changed the stage, otherwise the end of the agent. An agent that a
        signal from outside ended is started once more. If a repair or a judgement changes nothing,
        the stage is left to a person.
        """
        agent = self.orders.agent
        if agent is None:
            return None
        log = self.jobs.service.log
        tries = prompt.list_earlier_fixes(log, stage.id) if stage.retry_count else []
        failure = prompt.read_failure_message(log, stage.id) if kind == prompt.REPAIR else None
        text = prompt.render_prompt(kind, state, stage, self.jobs.root, tries, failure)
        task = AgentTask(stage.id, kind, text)
        left = run_agent_task(self.jobs, agent, task, self._must_end)
        self.jobs.service.files.record_foreign_changes()
        now, mark = self.jobs.service.state(), _stage_mark(stage)
        still = now.stages.get(stage.id)
        if (
            still is None
            or _stage_mark(still) != mark
            or now.pending_amendments
            or self._must_end()
        ):
            return None
        if left.is_killed_from_outside and mark not in self._lost:
            self._lost.add(mark)
            return None
        if kind != prompt.COMPUTE:
            self._left.add(mark)
        return left
