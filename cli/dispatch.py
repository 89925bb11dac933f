"""``wfctl dispatch``, ``wait`` and ``run``: getting stages computed."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from cli.output import say
from cli.workspace import engine, reading
from cli.writes import tell


def dispatch(
    context: typer.Context,
    stage: Stage,
    sync: Annotated[bool, typer.Option("--sync", help="Wait for its end, without tmux.")] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Launch a stage through DPDispatcher."""
    from reconciler.dispatch import dispatch as launch
    from reconciler.reconcile import dispatch_sync

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
    from reconciler.reconcile import in_flight
    from reconciler.waiting import wait_all

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


def run(
    context: typer.Context,
    dry_run: DryRun = False,
) -> None:
    """Drive the workflow, one stage after another, as far as it goes without anybody."""
    if dry_run:
        _rehearse(context)
        return
    from reconciler.run import run as drive

    with engine(context) as (jobs, output):
        say(f"running {jobs.service.state().id}")
        ended = drive(jobs)
        output.result(
            {"exit_reason": ended.exit_reason, "message": ended.message},
            lambda: f"{ended.exit_reason}: {ended.message}",
            state=ended.state,
        )
    if ended.exit_reason != "completed":
        raise typer.Exit(6)


def _rehearse(context: typer.Context) -> None:
    from projections.next_actions import next_actions

    with reading(context) as workflow:
        state = workflow.state()
        actions = next_actions(state)
        text = "\n".join(f"would do: {action.command}  ({action.reason})" for action in actions)
        workflow.output.result(
            {"would": [a._asdict() for a in actions]}, lambda: text or "nothing to do", state=state
        )
