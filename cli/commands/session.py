"""``wfctl session …``: one stretch of work, with a budget."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

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
        state = resumed.outcome.state
        output.result(
            resumed.to_dict(),
            lambda: _resumed(resumed, output),
            state=state,
            actions=resumed.briefing.actions,
        )


def _resumed(resumed: Resumed, output: Output) -> str:
    from cli.terminal import briefing

    session = resumed.outcome.state.session
    lines = [f"session {session.count} started"]
    if resumed.environment is not None:
        seconds = resumed.environment["seconds"]
        lines.append(f"init.sh: ready after {seconds} s ({resumed.environment['output']})")
    lines += _section("log", resumed.log_tail)
    lines += _section("git log", resumed.git_log or ())
    if resumed.briefing is not None:
        lines.append(briefing.text(resumed.briefing, output, False))
    return "\n".join(lines)


def _section(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)


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
            found = [_of_number(found, number)]
        data: Any = [one.to_dict() for one in found]
        output = workflow.output
        output.result(
            {"sessions": data, "session_config": state.session_config},
            lambda: "\n".join(_line(one) for one in found) or "wfctl kept no session yet",
            state=state,
        )


def _of_number(found: list[SessionRecord], number: int) -> SessionRecord:
    for one in found:
        if one.number == number:
            return one
    kept = ", ".join(str(one.number) for one in found) or "none"
    raise NotFound(
        f"no session {number} that wfctl kept: there is {kept}. `wfctl audit costs` lists those of "
        "an imported log too",
        session=number,
    )


def _line(one: SessionRecord) -> str:
    charges = ", ".join(f"{c['stage']} {c['weight']:g} ({c['work_class']})" for c in one.charges)
    return (
        f"session {one.number}  {one.started_at[:19]}Z  {one.started_by}  {one.end}  "
        f"cost {one.cost:g}/{one.budget:g}" + (f"  {charges}" if charges else "")
    )
