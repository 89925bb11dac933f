"""``wfctl dispatch`` and ``wait``: getting one stage computed."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.frame.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from cli.frame.workspace import engine
from cli.frame.writes import tell


def dispatch(
    context: typer.Context,
    stage: Stage,
    sync: Annotated[bool, typer.Option("--sync", help="Wait for its end, without tmux.")] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Launch a stage through DPDispatcher."""
    from reconciler.control.dispatch import dispatch as launch
    from reconciler.control.waiting import dispatch_sync

    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        if sync:
            outcome = dispatch_sync(jobs, stage, options)
        else:
            outcome = launch(jobs, stage, sync=False, options=options)
        tell(output, outcome, options)


def wait(
    context: typer.Context,
    stages: Annotated[
        list[str], typer.Argument(help="Ids of the stages, such as stage-2.", metavar="STAGE...")
    ],
    timeout: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="Give up after S seconds (exit 1).")
    ] = None,
) -> None:
    """Block until the attempts of all the stages have ended, and record how."""
    from reconciler.control.finding import in_flight
    from reconciler.control.waiting import wait_all

    with engine(context) as (jobs, output):
        wait_all(jobs, stages, timeout)
        state = jobs.service.state()
        open_ = {stage.id for stage in in_flight(state)}
        ends = [
            {"stage": id_, "status": state.stage(id_).status.value, "ended": id_ not in open_}
            for id_ in stages
        ]
        over = all(end["ended"] for end in ends)
        output.result(
            ends[0] if len(ends) == 1 else {"stages": ends, "ended": over},
            lambda: "\n".join(map(_end, ends)),
            state=state,
        )
    if not over:
        raise typer.Exit(1)


def _end(end: dict[str, str | bool]) -> str:
    text = f"{end['stage']} is {end['status']}"
    return text if end["ended"] else f"{text}; no end of its attempt is known"
