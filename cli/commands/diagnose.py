"""``wfctl stage diagnose``: find the cause of a failed stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.frame.context import Context
from cli.frame.options import Stage, Writes, option
from cli.frame.workspace import open_job_runner
from cli.frame.write_command import run_action_and_print_outcome
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from reconciler.context import JobContext
    from reconciler.verdict.diagnosis import Diagnosis
    from service.writing.workflow_service import Outcome


def diagnose(
    context: Context,
    options: Writes,
    stage: Stage,
    submit: bool = option(
        "Run the job again to collect its output and error messages. This counts as a retry."
    ),
    sync: bool = option("Wait until the job ends. Requires --submit."),
) -> None:
    """Diagnose why the newest run of a stage failed.

    Without --submit, the command changes nothing.
    """
    from reconciler.control.dispatch import dispatch_stage as launch
    from reconciler.control.reconcile import dispatch_sync
    from reconciler.control.stop_jobs import diagnose_newest_attempt

    def act(jobs: JobContext) -> Outcome:
        if sync:
            return dispatch_sync(jobs, stage, options, diagnostic=True)
        return launch(jobs, stage, sync=False, options=options, diagnostic=True)

    if submit:
        run_action_and_print_outcome(context, options, act)
        return
    if sync or options.command_id or options.expected_version is not None:
        raise InvalidOption(
            "the options --sync, --command-id and --expected-version can be used only with the "
            "option --submit. Add --submit, or remove these options."
        )
    with open_job_runner(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        known = state.stage(stage)
        attempt = known.attempt
        if attempt is None:
            raise NotFound(
                f"the stage {stage} has no attempt that can be diagnosed. The status of the stage "
                f"is {known.status}."
            )
        found = diagnose_newest_attempt(jobs, state, known, attempt)
        data = {"stage": stage, "attempt": attempt.id, "error": known.last_error}
        text = "\n".join(_format_diagnosis(f"{stage} {attempt.id}", found))
        output.result({**data, **found.to_dict()}, lambda: text, state=state)


def _format_diagnosis(head: str, found: Diagnosis) -> Iterator[str]:
    kind = "failed check" if found.failed_check else found.category.replace("_", " ")
    yield f"{head}: {kind}"
    yield f"  cause    {found.because}"
    yield from (f"  job      {line}" for line in found.jobs)
    yield f"  ran in   {found.remote or 'an unknown place'}"
    if not found.has_output:
        yield "  no output of the job is on this machine; `--submit` runs the job again to fetch it"
    yield from (f"  task     {line}" for line in found.tasks)
    yield f"  next     {found.advice}"
    yield from (f"  | {line}" for line in (found.output or "").splitlines())
