"""``wfctl session``: start, end and list working sessions."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from cli.frame.context import Context
from cli.frame.options import AsOf, Text, Writes, argument, option
from cli.frame.workspace import (
    open_for_reading,
    open_job_runner,
)
from cli.frame.write_command import (
    issue_command,
    print_outcome,
)
from cli.terminal.output import Output
from projections.files.sessions import SessionRecord, list_sessions
from service.errors import NotFound

if TYPE_CHECKING:
    from reconciler.loop.session import SessionStart


class Reason(StrEnum):
    """The reason why a working session ends."""

    COMPLETED = "completed"
    BLOCKED = "blocked"
    BUDGET = "budget_exhausted"
    WAITING = "waiting"


def start(
    context: Context,
    options: Writes,
    report: Text = option(
        "PATH",
        "Write the report of the completed workflow to this file in the workflow's "
        "folder. Default: a dated file in docs/superscientist/reports/.",
    ),
) -> None:
    """Start a working session.

    wfctl first runs init.sh and compares the log with files, processes and the scheduler.
    """
    from reconciler.loop.session import start_manual_session as begin

    with open_job_runner(context, options.dry_run) as (jobs, output):
        resumed = begin(jobs, options, report=report)
        if resumed.briefing is None:
            print_outcome(output, resumed.outcome, options)
            return
        output.result(
            resumed.to_dict(),
            lambda: "\n".join(_format_session_start(resumed, output)),
            state=resumed.outcome.state,
            actions=resumed.briefing.actions,
        )


def _format_session_start(resumed: SessionStart, output: Output) -> Iterator[str]:
    from cli.terminal import briefing

    yield f"session {resumed.outcome.state.session.count} started"
    if resumed.environment is not None:
        seconds = resumed.environment["seconds"]
        yield f"init.sh: ready after {seconds} s ({resumed.environment['output']})"
    for title, lines in (("log", resumed.log_tail), ("git log", resumed.git_log)):
        yield from [f"{title}:", *(f"  {line}" for line in lines)] if lines else ()
    if resumed.briefing is not None:
        yield briefing.format_briefing(resumed.briefing, output, False)


def end(
    context: Context,
    options: Writes,
    reason: Annotated[Reason, option("Record in the log why the session ends.")],
    next_: Text = option("--next", "TEXT", "Describe the next step, for the next session."),
) -> None:
    """End the current working session."""
    issue_command(context, options, "session.ended", reason=reason.value, next=next_)


def show(
    context: Context,
    number: int | None = argument(
        "[N]", "The number of a working session. Default: all sessions.", min=1
    ),
    view: AsOf = None,
) -> None:
    """List working sessions with their duration, cost and reason for ending."""
    with open_for_reading(context) as workflow:
        found = list_sessions(workflow.log.steps(upto=view))
        state = workflow.state(view)
        if number is not None:
            kept = ", ".join(str(one.number) for one in found) or "none"
            found = [one for one in found if one.number == number][:1]
            if not found:
                raise NotFound(
                    f"the log has no session {number}. Recorded sessions: {kept}. To include the "
                    "sessions of an imported log, run `wfctl audit costs`.",
                    session=number,
                )
        told = [one.to_dict() for one in found]
        text = "\n".join(map(_format_session, found)) or "no session has started yet"
        data = {"sessions": told, "session_config": state.session_config}
        workflow.output.result(data, lambda: text, state=state)


def _format_session(one: SessionRecord) -> str:
    charges = ", ".join(f"{c['stage']} {c['weight']:g} ({c['work_class']})" for c in one.charges)
    return (
        f"session {one.number}  {one.started_at[:19]}Z  {one.started_by}  {one.end}  "
        f"cost {one.cost:g}/{one.budget:g}" + (f"  {charges}" if charges else "")
    )
