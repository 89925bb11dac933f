"""``wfctl round …``: show optimization loops, and start or stop their rounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.options import AsOf, Text, Writes, argument, option
from cli.frame.workspace import open_for_reading, open_job_runner
from lifecycle.errors import UnknownLoop
from lifecycle.state.workflow import Workflow
from lifecycle.words.mandates import format_count
from projections.words.rounds import (
    collect_proposal_data,
    get_loop_progress,
    list_loop_progress,
    round_rows,
)
from projections.words.text import spell_unseen
from service.errors import InvalidOption

Name = Annotated[
    str, argument("LOOP", "The name of the optimization loop, as `wfctl round list` prints it.")
]


def list_(context: Context, view: AsOf = None) -> None:
    """List the optimization loops and their current rounds.

    A loop repeats some stages in rounds. Each round computes new points (sets of parameter values).
    """
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        found = list_loop_progress(state)
        workflow.output.result(
            [one.to_dict() for one in found],
            lambda: "\n".join(map(str, found)) or "no loops",
            state=state,
        )


def _require_loop(state: Workflow, name: str) -> None:
    if name not in state.loops:
        raise UnknownLoop(name, list(state.loops))


def show(context: Context, name: Name, view: AsOf = None) -> None:
    """Show the rounds of an optimization loop.

    For each round, show who proposed its points (sets of parameter values), and the resulting
    numbers.
    """
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        _require_loop(state, name)
        workflow.output.result(
            collect_proposal_data(state, name),
            lambda: "\n".join([*_format_rounds(state, name), *_draw_plots(state, name)]),
            state=state,
        )


def _draw_plots(state: Workflow, name: str) -> Iterator[str]:
    from projections.drawing.plots import draw_braille_plot, plots_of_rounds

    for plot in plots_of_rounds(state, name):
        yield from ("", *draw_braille_plot(plot))


def _format_rounds(state: Workflow, name: str) -> list[str]:
    lines = [str(get_loop_progress(state, name))]
    for number, points, by, numbers in round_rows(state, name):
        of = f" by {spell_unseen(by)}" if by else ""
        lines.append(f"  round {number}: {points}{of}; {numbers}")
    return lines


def ask(context: Context, name: Name) -> None:
    """Print what you need to propose the next points of a loop.

    The output contains the allowed values, and the points (sets of parameter values) and numbers of
    earlier rounds.
    """
    with open_for_reading(context) as workflow:
        state = workflow.state()
        _require_loop(state, name)
        data = collect_proposal_data(state, name)
        workflow.output.result(
            data, lambda: "\n".join(_format_request(state, name, data)), state=state
        )


def _format_request(state: Workflow, name: str, data: dict[str, Any]) -> list[str]:
    lines = _format_rounds(state, name)
    lines += [f"  {value}: {spell_unseen(str(bounds))}" for value, bounds in data["within"].items()]
    each = data["each"]
    most = f"at most {format_count(each, 'point')}" if each else "any number of points"
    lines.append(f"  {most} a round, and no point twice; {data['table']} has all so far")
    return lines


def propose(
    context: Context,
    options: Writes,
    name: Name,
    source: Annotated[
        str | None,
        argument(
            "FILE",
            "The file with the new points (sets of parameter values) in CSV, JSON or JSON "
            "lines, or - to read JSON from stdin.",
        ),
    ] = None,
    points: Text = option(
        "JSON",
        'Propose these points (sets of parameter values) as a JSON list, for example [{"T": 2.1}].',
    ),
    reason: Text = option("TEXT", "Record in the log why you propose these points."),
) -> None:
    """Start the next round of an optimization loop.

    FILE contains the new points (sets of parameter values). Without FILE, wfctl uses the points
    that a stage of the loop wrote.
    """
    from lifecycle.payload import models as p
    from reconciler.control.rounds import begin_proposed_round, begin_round, parse_points

    with open_job_runner(context, options.dry_run) as (jobs, output):
        state = jobs.service.state()
        _require_loop(state, name)
        loop = state.loop(name)
        if (source is None and points is None) == loop.has_external_proposer or (source and points):
            found = (
                "FILE or --points"
                if loop.has_external_proposer
                else f"neither FILE nor --points, because {loop.ask} provides the points"
            )
            raise InvalidOption(f"{name}: expected {found}")
        if source is None and points is None:
            outcome = begin_proposed_round(jobs, name, options)
        else:
            content = points.encode() if points is not None else _read_source(str(source))
            number = state.loops[name].round.number + 1
            asked = p.RoundBegun(
                loop=name,
                points=parse_points(loop, number, source or "--points", content),
                by=f"{jobs.service.actor.kind}:{jobs.service.actor.name}",
                reason=reason,
                data=_list_result_digests(state, loop.points),
            )
            outcome = begin_round(jobs, asked, options)
        from cli.frame.write_command import print_outcome

        print_outcome(output, outcome, options)


def _read_source(source: str) -> bytes:
    import sys

    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise InvalidOption(f"{source}: {error.strerror}") from error


def _list_result_digests(state: Workflow, stage: str) -> dict[str, str]:
    """Return the path and digest of each result file of a stage.

    A proposer of new points reads these files, so the log records their digests.
    """
    return {one["path"]: one["sha256"] for one in state.stages[stage].results}


def stop(
    context: Context,
    options: Writes,
    name: Name,
    reason: Annotated[
        str, option("TEXT", "Record this text in the log as the reason for the change.")
    ],
) -> None:
    """Stop an optimization loop after its current round."""
    from cli.frame.write_command import write_commands
    from lifecycle.payload import models as p

    write_commands(context, options, p.LoopStopped(loop=name, reason=reason))
