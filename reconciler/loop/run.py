"""A session of the loop: begun by the resume protocol, driven, and ended with its reason."""

from __future__ import annotations

from dataclasses import replace

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.status import FINISHED, Status
from projections.files.summary import sessions
from projections.words.account import stale
from reconciler.context import Jobs
from reconciler.errors import EnvironmentNotReady, ReconcilerError
from reconciler.files.described import has_command
from reconciler.files.freshness import StaleStages, deviations, look, told, unrecorded
from reconciler.loop import ending, prompt
from reconciler.loop.agent import AgentTask, end_orphan, hand_over
from reconciler.loop.ending import Ended, Interruption, Orders
from reconciler.loop.loop import WorkflowLoop
from reconciler.loop.session import begin, check_report
from service.consent.doubts import doubts_of
from service.errors import InvalidOption
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
    never the end of the others. Raises `AlreadyDriven` where another loop is at work,
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
            return _close(jobs, ending.completed(jobs.service.state()))
        for doubt in doubts_of(jobs.service.log.approvals, jobs.service.state()):
            jobs.say(doubt, level="warning")
        check_edits_of_all(jobs.service)
        _check(jobs, orders)
        end_orphan(jobs)
        _open(jobs, orders, options, asked)
        _resolve(jobs)
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
    return ending.completed(state)


def _check(jobs: Jobs, orders: Orders) -> None:
    session = jobs.service.state().session
    if session.is_open and not session.driven and orders.report not in (None, session.report):
        raise InvalidOption(
            f"session {session.count} is open, and its report goes to "
            f"{session.report or 'the usual place'}; expected no other --report, found "
            f"{orders.report!r}. Leave it out, or end that session first: `wfctl session end`."
        )
    if not orders.served:
        # The runner looked before its first session: what lies there now came since.
        check_report(jobs, orders.report)


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


def _resolve(jobs: Jobs) -> None:
    """Make ready what nothing holds back; in an imported workflow nobody may have done so."""
    state = jobs.service.state()
    for stage in state.stages.values():
        if stage.status in (Status.PENDING, Status.INVALIDATED) and not state.unmet(stage):
            # The others follow from it, in the same append.
            jobs.record(p.StageReadied(stage=stage.id))
            return


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
        named = (f"Session ending: blocked. {one}"[:_NOTE] for one in ended.untold)
        jobs.record(*(p.NoteLogged(text=text) for text in named), command)
    state = jobs.service.state()
    jobs.service.write_report(state, seen)
    return replace(ended, state=state)
