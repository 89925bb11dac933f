"""A session of the loop: begun by the resume protocol, driven, and ended with its reason."""

from __future__ import annotations

from dataclasses import replace

from lifecycle import payload as p
from lifecycle.errors import Refused
from lifecycle.status import FINISHED, Status
from projections.sessions import sessions
from reconciler import ending
from reconciler.agent import end_orphan
from reconciler.dispatch import NoStageCommand, has_command
from reconciler.ending import Ended
from reconciler.errors import ReconcilerError
from reconciler.interruption import Interruption
from reconciler.jobs import Jobs
from reconciler.loop import Loop
from reconciler.orders import Orders
from reconciler.session import begin, check_report
from service.errors import InvalidOption
from service.service import Outcome, WriteOptions

#: Characters of what comes next that the log is told.
_NEXT = 1_000


def run(
    jobs: Jobs,
    orders: Orders,
    options: WriteOptions,
    asked: Interruption,
) -> Ended:
    """Drive the workflow as far as it goes without anybody, in one session.

    Whatever an earlier loop left in flight is taken up first; a session that somebody opened is
    gone on in. Raises `NoStageCommand` before anything is launched where a stage says nothing to
    run and no agent is there, `AlreadyDriven` where another loop is at work, `InvalidOption` and
    `AlreadyThere` for a report that cannot go where it is asked for.
    """
    options = replace(options, content={"run": orders.report})
    jobs = jobs.acting_as("runner")
    with jobs.driving():
        first = jobs.service.first_answer(options)
        if first is not None:
            return _earlier(jobs, first)
        if jobs.service.state().is_finished:
            return _close(jobs, ending.completed(jobs.service.state()))
        _check(jobs, orders)
        end_orphan(jobs)
        _open(jobs, orders, options)
        _resolve(jobs)
        return _driven(jobs, Loop(jobs, orders, asked))


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
    if orders.agent is None:
        check_commands(jobs)
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


def check_commands(jobs: Jobs) -> None:
    """Raise `NoStageCommand` where a stage says nothing to run."""
    silent = [
        stage.id
        for stage in jobs.service.state().stages.values()
        if stage.status not in FINISHED
        and stage.status is not Status.POST_PROCESSING
        and not has_command(jobs, stage)
    ]
    if silent:
        raise NoStageCommand(silent)


def _open(jobs: Jobs, orders: Orders, options: WriteOptions) -> None:
    """Begin a session, or go on in the one that somebody opened by hand."""
    session = jobs.service.state().session
    if session.is_open and not session.driven:
        jobs.tell(
            jobs.service.handle(
                p.NoteLogged(text=f"The loop goes on in session {session.count}"), options=options
            )
        )
        return
    begin(jobs, options, report=orders.report, driven=True)


def _resolve(jobs: Jobs) -> None:
    """Make ready what nothing holds back; in an imported workflow nobody may have done so."""
    state = jobs.service.state()
    for stage in state.stages.values():
        if stage.status in (Status.PENDING, Status.INVALIDATED) and not state.unmet(stage):
            # The others follow from it, in the same append.
            jobs.record(p.StageReadied(stage=stage.id))
            return


def _driven(jobs: Jobs, loop: Loop) -> Ended:
    try:
        return _close(jobs, loop.drive())
    except (ReconcilerError, Refused) as error:
        # What cannot be launched needs somebody; the session did not die of it.
        _close(jobs, Ended("blocked", error.message, error.message, jobs.service.state()))
        raise


def _close(jobs: Jobs, ended: Ended) -> Ended:
    """End the session, and see that a completed workflow has its report."""
    session = jobs.service.state().session
    if session.is_open:
        command = p.SessionEnded.model_validate(
            {"reason": ended.exit_reason, "next": ended.next[:_NEXT]}
        )
        jobs.record(command)
    state = jobs.service.state()
    jobs.service.write_report(state)
    return replace(ended, state=state)
