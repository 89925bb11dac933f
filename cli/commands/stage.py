"""``wfctl stage …`` and ``session …``: one transition, one field, one stretch of work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli.frame.deciding import (
    Decision,
    DecisionKey,
    Key,
    Overrule,
    claims_of,
    decide,
    overruling_of,
)
from cli.frame.options import FINDINGS, AsOf, Stage, Text, Why, Writes, argument, option
from cli.frame.workspace import engine, newest_attempt, reading, require_work_tree_of_root
from cli.frame.writes import claim, issue, tell, through, write
from cli.terminal.output import Output
from lifecycle.payload import models as p
from lifecycle.rules.decide import payload_of
from projections.files.sessions import SessionRecord, sessions
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import Jobs
    from reconciler.loop.session import Resumed
    from reconciler.verification.verify import Verification
    from service.writing.workflow_service import Outcome

_CATEGORIES = "input, resource, scheduler, missing_output, software, unknown"
Attempt = Annotated[Text, option("--attempt", "ID", "Attempt (default: the running one).")]


def ready(context: typer.Context, options: Writes, stage: Stage) -> None:
    """Set a pending or invalidated stage to ready once its dependencies are completed."""
    issue(context, options, "stage.readied", stage=stage)


def prepare(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    detail: Text = option("Text for the log."),
) -> None:
    """Set a ready stage to preparing."""
    require_work_tree_of_root(context)
    issue(context, options, "stage.prepared", stage=stage, detail=detail)


def launch(context: typer.Context, options: Writes, stage: Stage) -> None:
    """Start the job of a prepared stage, like `wfctl dispatch` without --sync."""
    from cli.commands.dispatch import dispatch

    dispatch(context, options, stage, sync=False)


def compute(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    attempt: Attempt = None,
    exit_code: int = option("Exit code of the computation.", default=0),
    detail: Text = option("Text for the log."),
    overrule: Overrule = None,
    key: Key = None,
) -> None:
    """Record that the computation of a running stage is over."""
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
    """Check outputs, logs and `parameters.verify` (exit 7 if a check fails)."""
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
    evidence: Text = option("TEXT", "Evidence that the criteria are met."),
    or_fail: bool = option("Record the stage as failed if a check fails."),
    overrule: Overrule = None,
    key: Key = None,
) -> None:
    """Complete a stage after checking its outputs."""
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
    error: Annotated[str, option("TEXT", "Reason of the failure.")],
    stop: bool = option("Stop its job too, on any machine."),
    category: Text = option("KIND", f"One of {_CATEGORIES}."),
) -> None:
    """Record that a stage failed."""
    values = {"stage": stage, "error": error, "category": category}
    command = cast(p.StageFailed, payload_of(p.StageFailed.type, values))
    if not stop:
        write(context, options, command)
        return
    from reconciler.control.stopping import fail_and_stop

    kind = command.category
    through(context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, kind))


def cancel(context: typer.Context, options: Writes, stage: Stage, reason: Why = None) -> None:
    """Stop the running job of a stage; afterwards the stage is failed."""
    from reconciler.control.stopping import fail_and_stop

    error = f"cancelled: {reason}" if reason else "cancelled"
    through(context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, None))


def retry(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    fix: Annotated[str, option("TEXT", "Describe what was fixed.")],
    regenerate: bool = option("Build submission.json again from the parameters."),
    failed_only: bool = option(
        "Keep finished tasks although their inputs changed (a person decides)."
    ),
    key: DecisionKey = None,
) -> None:
    """Let a failed stage run again; this counts as a retry.

    If an input of a sweep changed, a script too, the finished tasks are computed again, except
    with --failed-only.
    """
    from reconciler.control.stopping import retry as retry_after

    if key is not None and not failed_only:
        raise InvalidOption("--key signs the decision of --failed-only; give both")

    def act(jobs: Jobs) -> Outcome:
        def ask(command: Payload, text: str) -> Outcome:
            line = f"wfctl stage retry {stage} --fix TEXT --failed-only"
            decision = Decision(command, stage, text)
            return cast("Outcome", decide(jobs.service, [decision], line, key, options))

        asked = ask if failed_only else None
        return retry_after(jobs, stage, fix, options, regenerate=regenerate, decide=asked)

    through(context, options, act)


def checkpoint(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    value: Annotated[str, argument("JSON", "Data from which the computation can continue.")],
) -> None:
    """Record a checkpoint of a long computation."""
    from service.documents.plan_file import decode_json

    checkpoint = decode_json("JSON", value)
    issue(context, options, "checkpoint.recorded", stage=stage, checkpoint=checkpoint)


def outputs(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    paths: Annotated[list[str], argument("PATH...", "Paths relative to the root.")],
) -> None:
    """Record the outputs of a stage."""
    issue(context, options, "outputs.recorded", stage=stage, outputs=paths)


def reuse(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    attempt: Text = option("ID", "Attempt whose outputs are used (default: the newest)."),
) -> None:
    """Use the kept outputs of an attempt that ran with the same inputs."""
    from reconciler.verification.reuse import reuse as take

    through(context, options, lambda jobs: take(jobs, stage, attempt, options))


class Reason(StrEnum):
    """Why a session ends."""

    COMPLETED = "completed"
    BLOCKED = "blocked"
    BUDGET = "budget_exhausted"
    WAITING = "waiting"


def start(
    context: typer.Context,
    options: Writes,
    report: Text = option("PATH", "Path of the report, below the root."),
) -> None:
    """Run init.sh, reconcile, and start a session."""
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
    reason: Annotated[Reason, option("Reason of the end.")],
    next_: Text = option("--next", "TEXT", "Describe the next step."),
) -> None:
    """End the open session."""
    issue(context, options, "session.ended", reason=reason.value, next=next_)


def show(
    context: typer.Context,
    number: int | None = argument("[N]", "Number of a session (default: all).", min=1),
    view: AsOf = None,
) -> None:
    """Show sessions with their duration, cost and end."""
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
