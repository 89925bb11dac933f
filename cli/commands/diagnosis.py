"""``wfctl stage diagnose``: what kind of failure it was; a diagnostic run where that is dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.options import CommandId, DryRun, ExpectedVersion, Stage, write_options
from service.errors import InvalidOption
from service.writing.stream_writer import WriteOptions

if TYPE_CHECKING:
    from reconciler.verdict.diagnosis import Diagnosis


def diagnose(
    context: typer.Context,
    stage: Stage,
    submit: Annotated[
        bool,
        typer.Option(
            "--submit",
            help="Run it once more for log and err alone: counts as a retry, ends in failed.",
        ),
    ] = False,
    sync: Annotated[bool, typer.Option("--sync", help="With --submit: wait for its end.")] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Say what kind of failure its newest attempt shows, from what lies here (writes nothing)."""
    if submit:
        options = write_options(dry_run, command_id, expected_version)
        _submit(context, stage, sync=sync, options=options)
    elif sync or command_id or expected_version is not None:
        raise InvalidOption("--sync, --command-id and --expected-version go with --submit")
    else:
        _report(context, stage)


def _submit(context: typer.Context, stage: str, *, sync: bool, options: WriteOptions) -> None:
    from cli.frame.workspace import engine
    from cli.frame.writes import tell
    from reconciler.control.dispatch import dispatch
    from reconciler.control.waiting import dispatch_sync

    with engine(context, options.dry_run) as (jobs, output):
        if sync:
            outcome = dispatch_sync(jobs, stage, options, diagnostic=True)
        else:
            outcome = dispatch(jobs, stage, sync=False, options=options, diagnostic=True)
        tell(output, outcome, options)


def _report(context: typer.Context, id_: str) -> None:
    from cli.frame.workspace import engine
    from reconciler.control.diagnosing import of_newest
    from service.errors import NotFound

    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        stage = state.stage(id_)
        attempt = stage.attempt
        if attempt is None:
            raise NotFound(f"{id_} has no attempt to be diagnosed; it is {stage.status}.")
        found = of_newest(jobs, state, stage, attempt)
        output.result(
            {"stage": id_, "attempt": attempt.id, "error": stage.last_error, **found.to_dict()},
            lambda: "\n".join(_lines(f"{id_} {attempt.id}", found)),
            state=state,
        )


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
