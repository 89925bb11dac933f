"""``wfctl stage …``: one transition or operational field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli.frame.deciding import Key, Overrule, overruling_of
from cli.frame.options import FINDINGS, Stage, Text, Writes, argument, option
from cli.frame.workspace import engine
from cli.frame.writes import claim, issue, tell, through, write
from lifecycle.payload import models as p
from lifecycle.rules.flat import payload_of

if TYPE_CHECKING:
    from cli.terminal.output import Output
    from reconciler.verification.verify import Verification

_CATEGORIES = "input, resource, scheduler, missing_output, software, unknown"
Attempt = Annotated[Text, option("--attempt", "ID", "The attempt; else the one under way.")]


def ready(context: typer.Context, options: Writes, stage: Stage) -> None:
    """pending or invalidated -> ready, once its dependencies are completed."""
    issue(context, options, "stage.readied", stage=stage)


def prepare(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    detail: Text = option("Shown in the log."),
) -> None:
    """ready -> preparing: its inputs are being built."""
    issue(context, options, "stage.prepared", stage=stage, detail=detail)


def launch(context: typer.Context, options: Writes, stage: Stage) -> None:
    """preparing -> running: the same as `wfctl dispatch`, not synchronous."""
    from cli.commands.dispatch import dispatch

    dispatch(context, options, stage, sync=False)


def compute(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    attempt: Attempt = None,
    exit_code: int = option("Exit code of the computation.", default=0),
    detail: Text = option("Shown in the log."),
    overrule: Overrule = None,
    key: Key = None,
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
    if overrule is not None:
        # What a person's word is bound to is no part of what was asked for.
        options = replace(options, content={"compute": values, "overrule": overrule})
    claim(context, options, command, overruling=overruling_of(overrule, key))


def verify(context: typer.Context, stage: Stage) -> None:
    """Check outputs, logs and `parameters.verify`; list every check (exit 7: one failed)."""
    from reconciler.verification.verify import verify_again

    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        found = verify_again(jobs, state, state.stage(stage))
        text = "\n".join(_checks(found, output))
        output.result({"stage": stage, **found.to_dict()}, lambda: text, state=state)
    if found.problems:
        raise typer.Exit(FINDINGS)


def _checks(found: Verification, output: Output) -> Iterator[str]:
    width = max((len(check.name) for check in found.checks), default=0)
    for check in found.checks:
        mark = output.style("ok    ", "32") if check.passed else output.style("FAILED", "31")
        yield f"{mark}  {check.name:<{width}}  {check.detail}".rstrip()
        yield from (f"        {output.style(finding, '33')}" for finding in check.findings)
    failed = sum(not check.passed for check in found.checks)
    yield f"{len(found.checks)} checks, {failed or 'none'} failed"


def complete(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    evidence: Text = option("TEXT", "What shows that the criteria hold."),
    or_fail: bool = option("Where a check fails, record the stage as failed."),
    overrule: Overrule = None,
    key: Key = None,
) -> None:
    """post_processing -> completed, after its outputs were checked."""
    from cli.frame.deciding import claims_of
    from reconciler.verification.verify import by_what
    from reconciler.verification.verify import complete as verify_and_complete

    # What its checks find is no part of what was asked for, and may differ the second time.
    asked = {"complete": stage, "evidence": evidence, **({"or_fail": True} if or_fail else {})}
    options = replace(options, content=asked)
    with engine(context, options.dry_run) as (jobs, output):
        claims = claims_of(jobs, overruling_of(overrule, key), options)
        outcome = verify_and_complete(jobs, stage, evidence, options, claims, or_fail=or_fail)
        tell(output, outcome, options, by_what(outcome, stage))


def fail(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    error: Annotated[str, option("TEXT", "Why it failed.")],
    stop: bool = option("End its attempt too, wherever it runs."),
    category: Text = option("KIND", f"One of {_CATEGORIES}."),
) -> None:
    """preparing, running or post_processing -> failed."""
    values = {"stage": stage, "error": error, "category": category}
    command = cast(p.StageFailed, payload_of(p.StageFailed.type, values))
    if not stop:
        write(context, options, command)
        return
    from reconciler.control.stopping import fail_and_stop

    kind = command.category
    through(context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, kind))


def cancel(
    context: typer.Context, options: Writes, stage: Stage, reason: Text = option("TEXT", "Why.")
) -> None:
    """End the attempt under way, wherever it runs; the stage failed, as `fail --stop` has it."""
    from reconciler.control.stopping import fail_and_stop

    error = f"cancelled: {reason}" if reason else "cancelled"
    through(context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, None))


def retry(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    fix: Annotated[str, option("TEXT", "What was put right.")],
    regenerate: bool = option("Build submission.json anew from the parameters."),
) -> None:
    """failed -> ready, counted as a retry; a fix of parameters is an amendment."""
    from reconciler.control.fix import retry as retry_after

    through(
        context, options, lambda jobs: retry_after(jobs, stage, fix, options, regenerate=regenerate)
    )


def checkpoint(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    value: Annotated[str, argument("JSON", "Where it can go on from.")],
) -> None:
    """Record a checkpoint of a long computation."""
    from service.documents.plan_file import decode_json

    checkpoint = decode_json("JSON", value)
    issue(context, options, "checkpoint.recorded", stage=stage, checkpoint=checkpoint)


def outputs(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    paths: Annotated[list[str], argument("PATH...", "Relative to the root.")],
) -> None:
    """Record the stage's list of outputs."""
    issue(context, options, "outputs.recorded", stage=stage, outputs=paths)


def reuse(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    attempt: Text = option("ID", "Whose; else the newest's."),
) -> None:
    """ready -> post_processing with kept outputs of an attempt that computed from the same."""
    from reconciler.verification.reuse import reuse as take

    through(context, options, lambda jobs: take(jobs, stage, attempt, options))
