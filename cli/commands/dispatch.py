"""``wfctl dispatch`` and ``wait``: getting one stage computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import DryRun, Stage, Writes, argument, option
from cli.frame.workspace import open_job_runner, require_work_tree_of_root
from cli.frame.write_command import write_through_jobs
from cli.terminal.output import print_message
from lifecycle.state.conditions import find_what_waits, has_results_kept
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs
    from reconciler.verdict.diagnosis import Diagnosis
    from service.writing.workflow_service import Outcome


def dispatch(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    sync: bool = option("Run the job in the foreground and wait until the job ends."),
) -> None:
    """Start the job of one stage.

    wfctl submits the job with the program DPDispatcher. If only the checks of the stage changed
    since its last run, wfctl repeats the checks and starts no job.
    """
    from reconciler.control.dispatch import dispatch_stage as launch
    from reconciler.control.reconcile import dispatch_sync

    require_work_tree_of_root(context)

    def act(jobs: Jobs) -> Outcome:
        outcome: Outcome | None = None
        if has_results_kept(jobs.service.state().stage(stage)):
            from reconciler.verification.reuse import (
                reuse_if_configured,
            )  # of no use if nothing was computed

            outcome = reuse_if_configured(jobs, stage, sync=sync, options=options)
        if outcome is None and sync:
            return dispatch_sync(jobs, stage, options)
        return outcome or launch(jobs, stage, sync=False, options=options)

    write_through_jobs(context, options, act)


def wait(
    context: typer.Context,
    stages: Annotated[
        list[str],
        argument("STAGE...", "The ids of the stages whose jobs to wait for, for example stage-2."),
    ],
    timeout: float | None = option(
        "S", "Stop waiting after S seconds and exit with code 1. The jobs continue.", min=0
    ),
) -> None:
    """Wait until running jobs finish.

    wfctl then records the result of each job.
    """
    from reconciler.control.judge_attempts import find_stages_in_flight
    from reconciler.control.reconcile import wait_all

    with open_job_runner(context) as (jobs, output):
        wait_all(jobs, stages, timeout)
        state = jobs.service.state()
        open_ = {stage.id for stage in find_stages_in_flight(state)}
        ends = [
            {"stage": id_, "status": state.stage(id_).status.value, "ended": id_ not in open_}
            for id_ in stages
        ]
        over = all(end["ended"] for end in ends)
        lines = [
            f"{id_} is {end['status']}" + ("" if end["ended"] else f"; {_why_open(state, id_)}")
            for id_, end in zip(stages, ends, strict=True)
        ]
        data = ends[0] if len(ends) == 1 else {"stages": ends, "ended": over}
        output.changed(data, lambda: "\n".join(lines), state)
    if not over:
        raise typer.Exit(1)


def _why_open(state: Workflow, id_: str) -> str:
    """Return why an attempt does not go on, if that is known."""
    found = find_what_waits(state, state.stage(id_))
    return "wfctl does not know how the attempt ended" if found is None else found.why


def reconcile(context: typer.Context, dry_run: DryRun = False) -> None:
    """Compare the log with files, processes and the scheduler.

    wfctl records each difference. If a job is lost, wfctl finds the job or starts it again.
    """
    from projections.words.account import list_items, to_dicts
    from reconciler.control.reconcile import reconcile_stages as bring_in_line
    from reconciler.files.freshness import inspect_results

    with open_job_runner(context, dry_run) as (jobs, output):
        findings = [one.to_dict() for one in bring_in_line(jobs, dry_run=dry_run)]
        state = jobs.service.state()
        text = "\n\n".join("\n".join(_format_finding(one, dry_run)) for one in findings)
        seen = inspect_results(jobs.service.root, jobs.service.log, state)
        stands = list_items(state, seen)
        output.changed(
            {"dry_run": dry_run, "findings": findings, "account": to_dicts(stands)},
            lambda: "\n".join([text or "no attempt is running", *map(str, stands)]),
            state,
            is_rehearsal=dry_run,
            actions=output.next_actions(state, seen),
        )


def _format_finding(found: dict[str, Any], dry_run: bool) -> Iterator[str]:
    verdict, evidence = found["verdict"], found["evidence"]
    yield f"{found['stage']} {found['attempt']}"
    yield f"  verdict   {verdict['name']} (row {verdict['row']}): {verdict['reason']}"
    yield f"  {'would' if dry_run else 'did'}     {'; '.join(found['steps'])}"
    yield (
        f"  evidence  monitor lock held {evidence['monitor_locked']}, monitor alive "
        f"{evidence['monitor_alive']}, tmux session {evidence['session']}"
    )
    for job in evidence["jobs"]:
        yield (
            f"  evidence  job {job['name'][:12]}: id {job['id']}, started {job['started']}, exit "
            f"{job['exit_code']}, lock held {job['lock_held']}"
        )
    marker = evidence["exit_marker"]
    yield f"  evidence  exit code marker: {marker['seen']} {marker['code']}"
    yield from (f"  evidence  output {o['path']}: {o['presence']}" for o in evidence["outputs"])


def rehydrate(
    context: typer.Context,
    dry_run: DryRun = False,
    brief: int | None = option(
        "N",
        "Shorten the output to N tokens (4 bytes each). Running jobs, open decisions "
        "and contradictions are always printed.",
        min=1,
    ),
) -> None:
    """Recover after a lost session and show what to do next.

    wfctl compares the log with files, processes and the scheduler, repairs differences, and prints
    the state and the next steps.
    """
    from cli.terminal.briefing import SCREEN, format_briefing
    from reconciler.briefing.briefing import Briefing, count_tokens, fit_briefing
    from reconciler.briefing.rehydrate import rehydrate as bring_back

    def rendered(briefing: Briefing) -> str:
        return output.rendered(
            briefing.to_dict(),
            lambda: format_briefing(briefing, output, dry_run),
            state=state,
            actions=briefing.actions,
            is_brief=brief is not None,
        )

    def fits(briefing: Briefing) -> bool:
        if brief is not None:
            return count_tokens(rendered(briefing)) <= brief
        return not output.is_text or rendered(briefing).count("\n") < SCREEN

    with open_job_runner(context, dry_run) as (jobs, output):
        briefing = bring_back(jobs, dry_run=dry_run)
        state = jobs.service.state()
        shown = rendered(fit_briefing(briefing, fits))
        output.print(shown)
    if brief is not None and count_tokens(shown) > brief:
        print_message(
            f"wfctl: the answer cannot be shortened further: it has {count_tokens(shown)} tokens, "
            f"and the limit is {brief}"
        )


def diagnose(
    context: typer.Context,
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

    def act(jobs: Jobs) -> Outcome:
        if sync:
            return dispatch_sync(jobs, stage, options, diagnostic=True)
        return launch(jobs, stage, sync=False, options=options, diagnostic=True)

    if submit:
        write_through_jobs(context, options, act)
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
