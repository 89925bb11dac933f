"""``wfctl stage …``: change the status or one recorded field of a stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, cast

from cli.frame.ask_decision import (
    Decision,
    DecisionKey,
    Key,
    Overrule,
    build_claims_checker,
    overruling_of,
    record_decisions,
)
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import Stage, Text, Why, Writes, argument, option
from cli.frame.workspace import (
    newest_attempt,
    open_job_runner,
    require_work_tree_of_root,
)
from cli.frame.write_command import (
    issue_command,
    print_outcome,
    record_checked_claims,
    run_action_and_print_outcome,
    write_commands,
)
from cli.terminal.output import Output
from lifecycle.payload import models as p
from lifecycle.payload.build_payload import payload_of
from service.errors import InvalidOption

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import JobContext
    from reconciler.verification.verify import Verification
    from service.writing.workflow_service import Outcome

_CATEGORIES = "input, resource, scheduler, missing_output, software, unknown"
Attempt = Annotated[
    Text,
    option(
        "--attempt",
        "ID",
        "Select this attempt (one run of the stage), for example att-0002. Default: the "
        "running attempt.",
    ),
]


def ready(context: Context, options: Writes, stage: Stage) -> None:
    """Set a stage to ready if its dependencies are completed.

    The stage must have the status pending or invalidated.
    """
    issue_command(context, options, "stage.readied", stage=stage)


def prepare(
    context: Context,
    options: Writes,
    stage: Stage,
    detail: Text = option("Record a note in the log about what was done."),
) -> None:
    """Set a ready stage to preparing, the status before its job starts."""
    require_work_tree_of_root(context)
    issue_command(context, options, "stage.prepared", stage=stage, detail=detail)


def launch(context: Context, options: Writes, stage: Stage) -> None:
    """Start the job of a prepared stage.

    This command does the same as `wfctl dispatch` without --sync.
    """
    from cli.commands.dispatch import dispatch

    dispatch(context, options, stage, sync=False)


def compute(
    context: Context,
    options: Writes,
    stage: Stage,
    attempt: Attempt = None,
    exit_code: int = option("Record this number as the exit code of the computation.", default=0),
    detail: Text = option("Record a note in the log about what was done."),
    overrule: Overrule = None,
    key: Key = None,
) -> None:
    """Record that the computation of a running stage has ended."""
    values = {
        "stage": stage,
        "attempt": attempt or newest_attempt(context, stage),
        "exit_code": exit_code,
        "detail": detail,
    }
    command = payload_of(p.StageComputed.type, values)
    if overrule is not None:
        # A repeated request must count as the same request. Therefore, compare only the typed
        # values, and not the evidence that the person contradicts.
        options = options._replace(content={"compute": values, "overrule": overrule})
    record_checked_claims(context, options, command, overruling=overruling_of(overrule, key))


def verify(context: Context, stage: Stage) -> None:
    """Check the results of a stage without changing its status.

    wfctl checks the output files and logs, and runs the command `parameters.verify`. The exit code
    is 7 if a check fails.
    """
    from reconciler.verification.verify import verify_again

    with open_job_runner(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        found = verify_again(jobs, state, state.stage(stage))
        text = "\n".join(_format_checks(found, output))
        output.result({"stage": stage, **found.to_dict()}, lambda: text, state=state)
    if found.problems:
        raise SystemExit(FINDINGS)


def _format_checks(found: Verification, output: Output) -> Iterator[str]:
    width = max((len(check.name) for check in found.checks), default=0)
    for check in found.checks:
        mark = output.style("ok    ", "32") if check.passed else output.style("FAILED", "31")
        yield f"{mark}  {check.name:<{width}}  {check.detail}".rstrip()
        yield from (f"        {output.style(finding, '33')}" for finding in check.findings)
    failed = sum(not check.passed for check in found.checks)
    yield f"{len(found.checks)} checks, {failed or 'none'} failed"


def complete(
    context: Context,
    options: Writes,
    stage: Stage,
    evidence: Text = option(
        "TEXT",
        "Record in the log how you know that the success criteria are met.",
    ),
    or_fail: bool = option("Set the stage to failed if a check fails."),
    overrule: Overrule = None,
    key: Key = None,
) -> None:
    """Check the outputs of a stage, and set the stage to completed."""
    from reconciler.verification.verify import complete_stage as verify_and_complete
    from reconciler.verification.verify import describe_success_criteria

    # A repeated request must count as the same request, but the findings of its checks may differ.
    # Therefore, compare only the typed values.
    asked = {"complete": stage, "evidence": evidence, **({"or_fail": True} if or_fail else {})}
    options = options._replace(content=asked)
    with open_job_runner(context, options.dry_run) as (jobs, output):
        claims = build_claims_checker(jobs, overruling_of(overrule, key), options)
        outcome = verify_and_complete(jobs, stage, evidence, options, claims, or_fail=or_fail)
        print_outcome(output, outcome, options, describe_success_criteria(outcome, stage))


def fail(
    context: Context,
    options: Writes,
    stage: Stage,
    error: Annotated[str, option("TEXT", "Record in the log why the stage failed.")],
    stop: bool = option("Also stop the running job, on this computer or on a remote cluster."),
    category: Text = option("KIND", f"Record the kind of failure: {_CATEGORIES}."),
) -> None:
    """Record that a stage failed."""
    values = {"stage": stage, "error": error, "category": category}
    command = cast(p.StageFailed, payload_of(p.StageFailed.type, values))
    if not stop:
        write_commands(context, options, command)
        return
    from reconciler.control.stop_jobs import fail_and_stop

    kind = command.category
    run_action_and_print_outcome(
        context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, kind)
    )


def cancel(context: Context, options: Writes, stage: Stage, reason: Why = None) -> None:
    """Stop the running job of a stage, and set the stage to failed."""
    from reconciler.control.stop_jobs import fail_and_stop

    error = f"cancelled: {reason}" if reason else "cancelled"
    run_action_and_print_outcome(
        context, options, lambda jobs: fail_and_stop(jobs, stage, error, options, None)
    )


def retry(
    context: Context,
    options: Writes,
    stage: Stage,
    fix: Annotated[str, option("TEXT", "Describe in the log what you fixed since the failure.")],
    regenerate: bool = option(
        "Recreate the job description (submission.json) from the parameters of the stage."
    ),
    failed_only: bool = option(
        "Rerun only the failed tasks of a sweep, and keep finished tasks even if "
        "their inputs changed. Only a person can do this."
    ),
    key: DecisionKey = None,
) -> None:
    """Set a failed stage to ready, so that the stage can run again.

    The number of retries is limited. If an input or script of a sweep changed, wfctl also computes
    finished tasks again, except with --failed-only.
    """
    from reconciler.control.retry_stage import retry_stage as retry_after

    if key is not None and not failed_only:
        raise InvalidOption(
            "the option --key can be used only with the option --failed-only, because the key "
            "signs this decision. Add --failed-only, or remove --key."
        )

    def act(jobs: JobContext) -> Outcome:
        def ask(command: Payload, text: str) -> Outcome:
            line = f"wfctl stage retry {stage} --fix TEXT --failed-only"
            decision = Decision(command, stage, text)
            return cast("Outcome", record_decisions(jobs.service, [decision], line, key, options))

        asked = ask if failed_only else None
        return retry_after(jobs, stage, fix, options, regenerate=regenerate, decide=asked)

    run_action_and_print_outcome(context, options, act)


def checkpoint(
    context: Context,
    options: Writes,
    stage: Stage,
    value: Annotated[
        str,
        argument(
            "JSON", "A JSON object that describes the point where the computation can continue."
        ),
    ],
) -> None:
    """Record the point where a long computation can continue.

    The next run of the stage gets this checkpoint.
    """
    from service.documents.plan_file import decode_json

    checkpoint = decode_json("JSON", value)
    issue_command(context, options, "checkpoint.recorded", stage=stage, checkpoint=checkpoint)


def outputs(
    context: Context,
    options: Writes,
    stage: Stage,
    paths: Annotated[
        list[str],
        argument("PATH...", "The paths of the output files, relative to the workflow's folder."),
    ],
) -> None:
    """Record which files are the outputs of a stage."""
    issue_command(context, options, "outputs.recorded", stage=stage, outputs=paths)


def reuse(
    context: Context,
    options: Writes,
    stage: Stage,
    attempt: Text = option(
        "ID", "Use the outputs of this attempt (default: the newest attempt with the same inputs)."
    ),
) -> None:
    """Use the outputs of an earlier run instead of running a stage.

    The earlier run must have had the same inputs, and wfctl must have kept its outputs.
    """
    from reconciler.verification.reuse import reuse_outputs as take

    run_action_and_print_outcome(context, options, lambda jobs: take(jobs, stage, attempt, options))
