"""``wfctl dispatch`` and ``wait``: getting one stage computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from cli.frame.workspace import engine
from cli.frame.writes import tell
from lifecycle.state.basis import has_results_kept

if TYPE_CHECKING:
    from reconciler.context import Jobs
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Outcome


def dispatch(
    context: typer.Context,
    stage: Stage,
    sync: Annotated[bool, typer.Option("--sync", help="Wait for its end, without tmux.")] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Launch a stage through DPDispatcher; judge what is kept where the verdict alone changed."""
    from reconciler.control.dispatch import dispatch as launch
    from reconciler.control.waiting import dispatch_sync

    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        outcome = _kept(jobs, stage, options, sync=sync)
        if outcome is None and sync:
            outcome = dispatch_sync(jobs, stage, options)
        elif outcome is None:
            outcome = launch(jobs, stage, sync=False, options=options)
        tell(output, outcome, options)


def _kept(jobs: Jobs, id_: str, options: WriteOptions, *, sync: bool) -> Outcome | None:
    """Take outputs that are kept in place of a launch, as `run` does; None where none are."""
    if not has_results_kept(jobs.service.state().stage(id_)):
        return None
    from reconciler.verification.reuse import taken  # of no use where nothing was computed

    return taken(jobs, id_, sync=sync, options=options)


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
        output.changed(
            ends[0] if len(ends) == 1 else {"stages": ends, "ended": over},
            lambda: "\n".join(map(_end, ends)),
            state,
        )
    if not over:
        raise typer.Exit(1)


def _end(end: dict[str, str | bool]) -> str:
    text = f"{end['stage']} is {end['status']}"
    return text if end["ended"] else f"{text}; no end of its attempt is known"
