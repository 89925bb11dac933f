"""``wfctl round …``: loops, their rounds, and the points that come next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.frame.options import AsOf, Text, Writes, argument, option
from cli.frame.workspace import engine, reading
from lifecycle.errors import UnknownLoop
from lifecycle.state.workflow import Workflow
from projections.words.rounds import asked_of, loop_told, loops_told, round_rows
from projections.words.text import spelled
from service.errors import InvalidOption

Name = Annotated[str, argument("LOOP", "Name of the loop.")]


def list_(context: typer.Context, view: AsOf = None) -> None:
    """List the loops with their current round."""
    with reading(context) as workflow:
        state = workflow.state(view)
        found = loops_told(state)
        workflow.output.result(
            [one.to_dict() for one in found],
            lambda: "\n".join(map(str, found)) or "no loops",
            state=state,
        )


def _known(state: Workflow, name: str) -> None:
    if name not in state.loops:
        raise UnknownLoop(name, list(state.loops))


def show(context: typer.Context, name: Name, view: AsOf = None) -> None:
    """Show the rounds of a loop, with proposers and numbers."""
    with reading(context) as workflow:
        state = workflow.state(view)
        _known(state, name)
        workflow.output.result(
            asked_of(state, name),
            lambda: "\n".join([*_lines(state, name), *_drawn(state, name)]),
            state=state,
        )


def _drawn(state: Workflow, name: str) -> Iterator[str]:
    from projections.drawing.plots import in_braille, plots_of_rounds

    for plot in plots_of_rounds(state, name):
        yield from ("", *in_braille(plot))


def _lines(state: Workflow, name: str) -> list[str]:
    lines = [str(loop_told(state, name))]
    for number, points, by, numbers in round_rows(state, name):
        of = f" by {spelled(by)}" if by else ""
        lines.append(f"  round {number}: {points}{of}; {numbers}")
    return lines


def ask(context: typer.Context, name: Name) -> None:
    """Print the bounds, points and numbers for the next proposal."""
    with reading(context) as workflow:
        state = workflow.state()
        _known(state, name)
        data = asked_of(state, name)
        workflow.output.result(data, lambda: "\n".join(_asked(state, name, data)), state=state)


def _asked(state: Workflow, name: str, data: dict[str, Any]) -> list[str]:
    lines = _lines(state, name)
    lines += [f"  {value}: {spelled(str(bounds))}" for value, bounds in data["within"].items()]
    most = f"at most {data['each']} points" if data["each"] else "any number of points"
    lines.append(f"  {most} a round, and no point twice; {data['table']} has all so far")
    return lines


def propose(
    context: typer.Context,
    options: Writes,
    name: Name,
    source: Annotated[
        str | None,
        argument("FILE", "Points in CSV, JSON or JSON lines; - reads JSON from stdin."),
    ] = None,
    points: Text = option("JSON", "JSON list of points, instead of FILE."),
    reason: Text = option("TEXT", "Reason for these points."),
) -> None:
    """Start the next round with the points of FILE, or of the stage that the loop asks."""
    from lifecycle.payload import models as p
    from reconciler.control.rounds import begin, begin_asked, points_in

    with engine(context, options.dry_run) as (jobs, output):
        state = jobs.service.state()
        _known(state, name)
        loop = state.loop(name)
        if (source is None and points is None) == loop.asks_somebody or (source and points):
            found = (
                "FILE or --points"
                if loop.asks_somebody
                else f"neither FILE nor --points, as {loop.ask} has them"
            )
            raise InvalidOption(f"{name}: expected {found}")
        if source is None and points is None:
            outcome = begin_asked(jobs, name, options)
        else:
            content = points.encode() if points is not None else _content(str(source))
            number = state.loops[name].round.number + 1
            asked = p.RoundBegun(
                loop=name,
                points=points_in(loop, number, source or "--points", content),
                by=f"{jobs.service.actor.kind}:{jobs.service.actor.name}",
                reason=reason,
                data=_table_of(state, loop.points),
            )
            outcome = begin(jobs, asked, options)
        from cli.frame.writes import tell

        tell(output, outcome, options)


def _content(source: str) -> bytes:
    import sys

    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise InvalidOption(f"{source}: {error.strerror}") from error


def _table_of(state: Workflow, stage: str) -> dict[str, str]:
    """Return the digests of the table that a proposer has before it."""
    return {one["path"]: one["sha256"] for one in state.stages[stage].results}


def stop(
    context: typer.Context,
    options: Writes,
    name: Name,
    reason: Annotated[str, option("TEXT", "Reason.")],
) -> None:
    """Stop a loop after its current round."""
    from cli.frame.writes import write
    from lifecycle.payload import models as p

    write(context, options, p.LoopStopped(loop=name, reason=reason))
