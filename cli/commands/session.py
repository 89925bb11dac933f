"""``wfctl session …``: one stretch of work, with a budget."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.options import AsOf, Text, Writes, argument, option
from cli.frame.workspace import engine, reading
from cli.frame.writes import issue, tell
from cli.terminal.output import Output
from projections.files.results import SessionRecord, sessions
from service.errors import NotFound

if TYPE_CHECKING:
    from reconciler.loop.session import Resumed


class Reason(StrEnum):
    """Why a session ends."""

    COMPLETED = "completed"
    BLOCKED = "blocked"
    BUDGET = "budget_exhausted"
    WAITING = "waiting"


def start(
    context: typer.Context,
    options: Writes,
    report: Text = option("PATH", "Where the report goes: a free path below the root."),
) -> None:
    """Look, run init.sh, reconcile, and begin a session of the next number."""
    from reconciler.loop.session import start as begin

    with engine(context, options.dry_run) as (jobs, output):
        resumed = begin(jobs, options, report=report)
        if resumed.briefing is None:
            tell(output, resumed.outcome, options)
            return
        output.result(
            resumed.to_dict(),
            lambda: "\n".join(_resumed(resumed, output)),
            state=resumed.outcome.state,
            actions=resumed.briefing.actions,
        )


def _resumed(resumed: Resumed, output: Output) -> Iterator[str]:
    from cli.terminal import briefing

    yield f"session {resumed.outcome.state.session.count} started"
    if resumed.environment is not None:
        seconds = resumed.environment["seconds"]
        yield f"init.sh: ready after {seconds} s ({resumed.environment['output']})"
    for title, lines in (("log", resumed.log_tail), ("git log", resumed.git_log)):
        yield from [f"{title}:", *(f"  {line}" for line in lines)] if lines else ()
    if resumed.briefing is not None:
        yield briefing.text(resumed.briefing, output, False)


def end(
    context: typer.Context,
    options: Writes,
    reason: Annotated[Reason, option("Why it ends.")],
    next_: Text = option("--next", "TEXT", "What comes next."),
) -> None:
    """End the open session in order."""
    issue(context, options, "session.ended", reason=reason.value, next=next_)


def show(
    context: typer.Context,
    number: int | None = argument("[N]", "One session; else all.", min=1),
    view: AsOf = None,
) -> None:
    """The sessions: how long, at what cost, and how each ended."""
    with reading(context) as workflow:
        found = sessions(workflow.log.steps(upto=view))
        state = workflow.state(view)
        if number is not None:
            kept = ", ".join(str(one.number) for one in found) or "none"
            found = [one for one in found if one.number == number][:1]
            if not found:
                raise NotFound(
                    f"no session {number} that wfctl kept: there is {kept}. `wfctl audit costs` "
                    "lists those of an imported log too",
                    session=number,
                )
        told = [one.to_dict() for one in found]
        text = "\n".join(map(_line, found)) or "wfctl kept no session yet"
        data = {"sessions": told, "session_config": state.session_config}
        workflow.output.result(data, lambda: text, state=state)


def _line(one: SessionRecord) -> str:
    charges = ", ".join(f"{c['stage']} {c['weight']:g} ({c['work_class']})" for c in one.charges)
    return (
        f"session {one.number}  {one.started_at[:19]}Z  {one.started_by}  {one.end}  "
        f"cost {one.cost:g}/{one.budget:g}" + (f"  {charges}" if charges else "")
    )
