"""``wfctl dispatch`` and ``wait``: getting one stage computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import DryRun, Stage, Writes, argument, option
from cli.frame.workspace import engine, require_work_tree_of_root
from cli.frame.writes import through
from cli.terminal.output import say
from lifecycle.state.conditions import has_results_kept, hindrance_of
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
    sync: bool = option("Wait until the job has ended; use no tmux."),
) -> None:
    """Start the job of one stage.

    The job goes through DPDispatcher. If only the checks of a stage changed, its results are
    checked again, and no job starts.
    """
    from reconciler.control.dispatch import dispatch as launch
    from reconciler.control.reconcile import dispatch_sync

    require_work_tree_of_root(context)

    def act(jobs: Jobs) -> Outcome:
        outcome: Outcome | None = None
        if has_results_kept(jobs.service.state().stage(stage)):
            from reconciler.verification.reuse import taken  # of no use if nothing was computed

            outcome = taken(jobs, stage, sync=sync, options=options)
        if outcome is None and sync:
            return dispatch_sync(jobs, stage, options)
        return outcome or launch(jobs, stage, sync=False, options=options)

    through(context, options, act)


def wait(
    context: typer.Context,
    stages: Annotated[list[str], argument("STAGE...", "Ids of the stages, for example stage-2.")],
    timeout: float | None = option("S", "Give up after S seconds (exit 1).", min=0),
) -> None:
    """Wait until running jobs finish.

    The result of each job is recorded.
    """
    from reconciler.control.reconcile import wait_all
    from reconciler.control.strangers import in_flight

    with engine(context) as (jobs, output):
        wait_all(jobs, stages, timeout)
        state = jobs.service.state()
        open_ = {stage.id for stage in in_flight(state)}
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
    found = hindrance_of(state, state.stage(id_))
    return "no end of its attempt is known" if found is None else found.why


def reconcile(context: typer.Context, dry_run: DryRun = False) -> None:
    """Compare the log with files, processes and the scheduler.

    What differs is recorded, and lost jobs are found or started again.
    """
    from projections.words.account import account, to_dicts
    from reconciler.control.reconcile import reconcile as bring_in_line
    from reconciler.files.freshness import look

    with engine(context, dry_run) as (jobs, output):
        findings = [one.to_dict() for one in bring_in_line(jobs, dry_run=dry_run)]
        state = jobs.service.state()
        text = "\n\n".join("\n".join(_finding(one, dry_run)) for one in findings)
        seen = look(jobs.service.root, jobs.service.log, state)
        stands = account(state, seen)
        output.changed(
            {"dry_run": dry_run, "findings": findings, "account": to_dicts(stands)},
            lambda: "\n".join([text or "no attempt is under way", *map(str, stands)]),
            state,
            is_rehearsal=dry_run,
            actions=output.next_actions(state, seen),
        )


def _finding(found: dict[str, Any], dry_run: bool) -> Iterator[str]:
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
        "Limit the output to N tokens of four bytes. Running jobs, open decisions and "
        "contradictions are always printed.",
        min=1,
    ),
) -> None:
    """Recover after a lost session and show what to do next.

    Read the log, compare it with files, processes and the scheduler, and repair what differs.
    """
    from cli.terminal.briefing import SCREEN, text
    from reconciler.briefing.briefing import Briefing, fitted, tokens
    from reconciler.briefing.rehydrate import rehydrate as bring_back

    def rendered(briefing: Briefing) -> str:
        return output.rendered(
            briefing.to_dict(),
            lambda: text(briefing, output, dry_run),
            state=state,
            actions=briefing.actions,
            is_brief=brief is not None,
        )

    def fits(briefing: Briefing) -> bool:
        if brief is not None:
            return tokens(rendered(briefing)) <= brief
        return not output.is_text or rendered(briefing).count("\n") < SCREEN

    with engine(context, dry_run) as (jobs, output):
        briefing = bring_back(jobs, dry_run=dry_run)
        state = jobs.service.state()
        shown = rendered(fitted(briefing, fits))
        output.print(shown)
    if brief is not None and tokens(shown) > brief:
        say(f"wfctl: nothing more can be left out; {tokens(shown)} tokens of {brief}")


def diagnose(
    context: typer.Context,
    options: Writes,
    stage: Stage,
    submit: bool = option(
        "Run the job once more for its log and err only; this counts as a retry."
    ),
    sync: bool = option("With --submit: wait until the job has ended."),
) -> None:
    """Diagnose the failure of the newest attempt; write nothing."""
    from reconciler.control.dispatch import dispatch as launch
    from reconciler.control.reconcile import dispatch_sync
    from reconciler.control.stopping import of_newest

    def act(jobs: Jobs) -> Outcome:
        if sync:
            return dispatch_sync(jobs, stage, options, diagnostic=True)
        return launch(jobs, stage, sync=False, options=options, diagnostic=True)

    if submit:
        through(context, options, act)
        return
    if sync or options.command_id or options.expected_version is not None:
        raise InvalidOption("--sync, --command-id and --expected-version go with --submit")
    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        known = state.stage(stage)
        attempt = known.attempt
        if attempt is None:
            raise NotFound(f"{stage} has no attempt to be diagnosed; it is {known.status}.")
        found = of_newest(jobs, state, known, attempt)
        data = {"stage": stage, "attempt": attempt.id, "error": known.last_error}
        text = "\n".join(_lines(f"{stage} {attempt.id}", found))
        output.result({**data, **found.to_dict()}, lambda: text, state=state)


def _lines(head: str, found: Diagnosis) -> Iterator[str]:
    yield f"{head}: {found.category.replace('_', ' ')}"
    yield f"  because  {found.because}"
    yield from (f"  job      {line}" for line in found.jobs)
    yield f"  ran in   {found.remote or 'no place that is known'}"
    if not found.has_output:
        yield "  nothing that the job wrote is here; `--submit` runs it once more to bring it back"
    yield from (f"  task     {line}" for line in found.tasks)
    yield f"  next     {found.advice}"
    yield from (f"  | {line}" for line in (found.output or "").splitlines())
