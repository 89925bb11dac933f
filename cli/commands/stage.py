"""``wfctl stage …``: one transition or operational field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli.commands.dispatch import diagnose
from cli.frame.impact import Key, Overrule, overruling_of
from cli.frame.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from cli.frame.writes import claim, write
from lifecycle.payload import models as p
from lifecycle.rules.flat import payload_of

if TYPE_CHECKING:
    from cli.terminal.output import Output
    from reconciler.verification.verify import Verification
    from service.writing.stream_writer import WriteOptions

_CATEGORIES = "input, resource, scheduler, missing_output, software, unknown"
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
        "verify": verify,
        "complete": complete,
        "fail": fail,
        "cancel": cancel,
        "diagnose": diagnose,
        "retry": retry,
        "checkpoint": checkpoint,
        "outputs": outputs,
        "reuse": reuse,
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
    command = payload_of("stage.prepared", {"stage": stage, "detail": detail})
    write(context, write_options(dry_run, command_id, expected_version), command)


def launch(
    context: typer.Context,
    stage: Stage,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """preparing -> running: the same as `wfctl dispatch`, not synchronous."""
    from cli.commands.dispatch import dispatch

    dispatch(context, stage, False, dry_run, command_id, expected_version)


def compute(
    context: typer.Context,
    stage: Stage,
    attempt: Attempt = None,
    exit_code: Annotated[int, typer.Option(help="Exit code of the computation.")] = 0,
    detail: Annotated[str | None, typer.Option(help="Shown in the log.")] = None,
    overrule: Overrule = None,
    key: Key = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """running -> post_processing: the computation of its attempt is over."""
    from cli.frame.workspace import newest_attempt

    values = {
        "stage": stage,
        "attempt": attempt or newest_attempt(context, stage),
        "exit_code": exit_code,
        "detail": detail,
    }
    command = payload_of(p.StageComputed.type, values)
    options = write_options(dry_run, command_id, expected_version)
    if overrule is not None:
        # What a person's word is bound to is no part of what was asked for.
        options = replace(options, content={"compute": values, "overrule": overrule})
    claim(context, options, command, overruling=overruling_of(overrule, key))


def verify(context: typer.Context, stage: Stage) -> None:
    """Check outputs, logs and `parameters.verify`; list every check (exit 7: one failed)."""
    from cli.frame.workspace import engine
    from reconciler.verification.verify import verify_again

    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        found = verify_again(jobs, state, state.stage(stage))
        output.result(
            {"stage": stage, **found.to_dict()},
            lambda: "\n".join(_checks(found, output)),
            state=state,
        )
    if found.problems:
        raise typer.Exit(7)


def _checks(found: Verification, output: Output) -> Iterator[str]:
    """Yield a line for each check, its findings below it, and what it comes to."""
    width = max((len(check.name) for check in found.checks), default=0)
    for check in found.checks:
        mark = output.style("ok    ", "32") if check.passed else output.style("FAILED", "31")
        yield f"{mark}  {check.name:<{width}}  {check.detail}".rstrip()
        yield from (f"        {output.style(finding, '33')}" for finding in check.findings)
    failed = sum(not check.passed for check in found.checks)
    yield f"{len(found.checks)} checks, {failed or 'none'} failed"


def complete(
    context: typer.Context,
    stage: Stage,
    evidence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What shows that the criteria hold.")
    ] = None,
    or_fail: Annotated[
        bool, typer.Option("--or-fail", help="Where a check fails, record the stage as failed.")
    ] = False,
    overrule: Overrule = None,
    key: Key = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """post_processing -> completed, after its outputs were checked."""
    from cli.frame.impact import claims_of
    from cli.frame.workspace import engine
    from cli.frame.writes import tell
    from reconciler.verification.verify import by_what
    from reconciler.verification.verify import complete as verify_and_complete

    # What its checks find is no part of what was asked for, and may differ the second time.
    asked = {"complete": stage, "evidence": evidence, **({"or_fail": True} if or_fail else {})}
    options = replace(write_options(dry_run, command_id, expected_version), content=asked)
    with engine(context, dry_run) as (jobs, output):
        claims = claims_of(jobs, overruling_of(overrule, key), options)
        outcome = verify_and_complete(jobs, stage, evidence, options, claims, or_fail=or_fail)
        tell(output, outcome, options, by_what(outcome, stage))


def fail(
    context: typer.Context,
    stage: Stage,
    error: Annotated[str, typer.Option("--error", metavar="TEXT", help="Why it failed.")],
    stop: Annotated[
        bool, typer.Option("--stop", help="End its attempt too, wherever it runs.")
    ] = False,
    category: Annotated[
        str | None, typer.Option("--category", metavar="KIND", help=f"One of {_CATEGORIES}.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """preparing, running or post_processing -> failed."""
    options = write_options(dry_run, command_id, expected_version)
    values = {"stage": stage, "error": error, "category": category}
    command = cast(p.StageFailed, payload_of(p.StageFailed.type, values))
    if stop:
        _fail_and_stop(context, stage, error, options, command.category)
    else:
        write(context, options, command)


def cancel(
    context: typer.Context,
    stage: Stage,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """End the attempt under way, wherever it runs; the stage failed, as `fail --stop` has it."""
    error = f"cancelled: {reason}" if reason else "cancelled"
    _fail_and_stop(context, stage, error, write_options(dry_run, command_id, expected_version))


def _fail_and_stop(
    context: typer.Context,
    stage: str,
    error: str,
    options: WriteOptions,
    category: p.Category | None = None,
) -> None:
    from cli.frame.workspace import engine
    from cli.frame.writes import tell
    from reconciler.control.stopping import fail_and_stop

    with engine(context, options.dry_run) as (jobs, output):
        tell(output, fail_and_stop(jobs, stage, error, options, category), options)


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
    """failed -> ready, counted as a retry; a fix of parameters is an amendment."""
    from cli.frame.workspace import engine
    from cli.frame.writes import tell
    from reconciler.control.fix import retry as retry_after

    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        outcome = retry_after(jobs, stage, fix, options, regenerate=regenerate)
        tell(output, outcome, options)


def checkpoint(
    context: typer.Context,
    stage: Stage,
    value: Annotated[str, typer.Argument(metavar="JSON", help="Where it can go on from.")],
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Record a checkpoint of a long computation."""
    from service.documents.plan_file import decode_json

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


def reuse(
    context: typer.Context,
    stage: Stage,
    attempt: Annotated[
        str | None, typer.Option("--attempt", metavar="ID", help="Whose; else the newest's.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """ready -> post_processing with kept outputs of an attempt that computed from the same."""
    from cli.frame.workspace import engine
    from cli.frame.writes import tell
    from reconciler.verification.reuse import reuse as take

    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        tell(output, take(jobs, stage, attempt, options), options)
