"""``wfctl stage …``: one transition or operational field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import typer

from cli.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from cli.writes import write
from lifecycle import payload as p
from lifecycle.schema import payload_of

Attempt = Annotated[
    str | None, typer.Option("--attempt", metavar="ID", help="The attempt; else the one under way.")
]


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="One transition or operational field of a stage.")
    commands: dict[str, Callable[..., None]] = {
        "ready": ready,
        "prepare": prepare,
        "launch": launch,
        "compute": compute,
        "complete": complete,
        "fail": fail,
        "retry": retry,
        "checkpoint": checkpoint,
        "outputs": outputs,
    }
    for name, function in commands.items():
        group.command(name)(function)
    return group


def ready(
    context: typer.Context,
    stage: Stage,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """pending or invalidated -> ready, once its dependencies are completed."""
    command = payload_of(p.StageReadied.type, {"stage": stage})
    write(context, write_options(dry_run, command_id, expected_version), command)


def prepare(
    context: typer.Context,
    stage: Stage,
    detail: Annotated[str | None, typer.Option(help="Shown in the log.")] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """ready -> preparing: its inputs are being built."""
    command = payload_of(p.StagePrepared.type, {"stage": stage, "detail": detail})
    write(context, write_options(dry_run, command_id, expected_version), command)


def launch(
    context: typer.Context,
    stage: Stage,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """preparing -> running: the same as `wfctl dispatch`, not synchronous."""
    from cli.dispatch import dispatch

    dispatch(context, stage, False, dry_run, command_id, expected_version)


def compute(
    context: typer.Context,
    stage: Stage,
    attempt: Attempt = None,
    exit_code: Annotated[int, typer.Option(help="Exit code of the computation.")] = 0,
    detail: Annotated[str | None, typer.Option(help="Shown in the log.")] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """running -> post_processing: the computation of its attempt is over."""
    from cli.workspace import newest_attempt

    values = {
        "stage": stage,
        "attempt": attempt or newest_attempt(context, stage),
        "exit_code": exit_code,
        "detail": detail,
    }
    command = payload_of(p.StageComputed.type, values)
    write(context, write_options(dry_run, command_id, expected_version), command)


def complete(
    context: typer.Context,
    stage: Stage,
    evidence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What shows that the criteria hold.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """post_processing -> completed, after its outputs were checked."""
    from cli.workspace import engine
    from cli.writes import tell
    from reconciler.verify import complete as verify_and_complete

    # What its checks find is no part of what was asked for, and may differ the second time.
    options = replace(
        write_options(dry_run, command_id, expected_version),
        content={"complete": stage, "evidence": evidence},
    )
    with engine(context, dry_run) as (jobs, output):
        tell(output, verify_and_complete(jobs, stage, evidence, options), options)


def fail(
    context: typer.Context,
    stage: Stage,
    error: Annotated[str, typer.Option("--error", metavar="TEXT", help="Why it failed.")],
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """preparing, running or post_processing -> failed."""
    command = payload_of(p.StageFailed.type, {"stage": stage, "error": error})
    write(context, write_options(dry_run, command_id, expected_version), command)


def retry(
    context: typer.Context,
    stage: Stage,
    fix: Annotated[str, typer.Option("--fix", metavar="TEXT", help="What was put right.")],
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Build submission.json anew from the parameters.")
    ] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """failed -> ready, counted as a retry."""
    values = {"stage": stage, "fix": fix, "regenerate": regenerate}
    command = payload_of(p.StageRetried.type, values)
    write(context, write_options(dry_run, command_id, expected_version), command)


def checkpoint(
    context: typer.Context,
    stage: Stage,
    value: Annotated[str, typer.Argument(metavar="JSON", help="Where it can go on from.")],
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Record a checkpoint of a long computation."""
    from service.plan_file import decode_json

    values = {"stage": stage, "checkpoint": decode_json("JSON", value)}
    command = payload_of(p.CheckpointRecorded.type, values)
    write(context, write_options(dry_run, command_id, expected_version), command)


def outputs(
    context: typer.Context,
    stage: Stage,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Relative to the root.")],
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Record the stage's list of outputs."""
    command = payload_of(p.OutputsRecorded.type, {"stage": stage, "outputs": paths})
    write(context, write_options(dry_run, command_id, expected_version), command)
