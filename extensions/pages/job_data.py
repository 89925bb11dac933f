"""Read data outside the event log for the web pages: output of jobs, files and tasks."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

from cli.frame.impact import forecast_effects, format_forecast, list_consequences
from eventstore.event import Actor
from extensions.pages.served_workflows import DataReaders
from lifecycle.errors import Refused
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.words.account import FileCheckResult
from projections.words.stage_progress import StageProgress
from reconciler.context import JobContext
from reconciler.control.job_output import open_job_output
from reconciler.dpdispatcher.late_runner import late_runner
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import find_log_differences
from reconciler.sweep.stage_tasks import get_stage_tasks
from service.errors import ServiceError
from service.reading.log import WorkflowLog
from service.root.atomic_files import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import find_newest_archive_numbers
from service.writing.workflow_service import Service

#: Maximum lines and characters of a job's output on a page, and maximum lines on the page for this
#: output.
_LINES, _LETTERS, _MANY = 20, 8000, 400
#: The actor under which the pages read a workflow. They never write.
_LOOKER = Actor("user", "pages")


def _print_nothing(*_: object, **__: object) -> None:
    """Ignore a message, because a page has nobody to notify."""


def build_data_readers() -> DataReaders:
    """Return the functions that read the output of jobs and the files of a workflow."""
    return DataReaders(
        _read_tail, _read_printed, _inspect_workflow, _list_impact, _measure_progress, _list_tasks
    )


def _read_tail(root: Path, log: WorkflowLog, state: Workflow, stage: Stage) -> str:
    """Return the last output lines of a stage's job.

    If the output is on another machine, return the command that prints it.
    """
    attempt = stage.attempt
    return "" if attempt is None else _read_output(root, log, state, stage, attempt.id)


def _read_printed(
    root: Path, log: WorkflowLog, state: Workflow, stage: Stage, attempt: str, err: bool
) -> str:
    return _read_output(root, log, state, stage, attempt, err=err, lines=_MANY)


def _read_output(
    root: Path,
    log: WorkflowLog,
    state: Workflow,
    stage: Stage,
    attempt: str,
    *,
    err: bool = False,
    lines: int = _LINES,
) -> str:
    """Return the last lines that an attempt of a stage printed."""
    service = Service(Root(root), log, _LOOKER)
    jobs = JobContext(service, late_runner(), _print_nothing, _print_nothing)
    try:
        with closing(open_job_output(jobs, state, stage, attempt, err=err, last=lines)) as heard:
            if heard.is_far:
                return f"(on another machine: wfctl logs -f {stage.id})"
            found: deque[bytes] = deque(maxlen=lines)
            for said in heard.new():
                found.extend(said.content.splitlines())
    except (OSError, ReconcilerError, ServiceError) as error:
        return f"(cannot be read: {error})"
    return b"\n".join(found).decode("utf-8", "replace")[-_LETTERS * lines // _LINES :]


def _measure_progress(root: Path, state: Workflow, stage: Stage) -> StageProgress | None:
    """Return the progress of a running stage, or of a sweep with known tasks, otherwise None."""
    tasks = get_stage_tasks(root, state, stage)
    if stage.open_attempt is not None:
        return tasks.measure(system_clock())
    counts = tasks.count(live=True)
    return None if counts is None else StageProgress(counts)


def _list_tasks(root: Path, state: Workflow, stage: Stage) -> list[dict[str, Any]]:
    """Return a record of each task of a sweep, or an empty list if they cannot be read."""
    try:
        return get_stage_tasks(root, state, stage).rows()
    except (OSError, Refused, ReconcilerError, ServiceError):
        return []


def _inspect_workflow(root: Path, log: WorkflowLog, state: Workflow) -> FileCheckResult:
    return find_log_differences(Root(root), log, state)


def _list_impact(root: Path, state: Workflow, amendment: Amendment) -> list[str]:
    impact = compute_approval_impact(
        state, amendment, find_newest_archive_numbers(root, state), utc_text(system_clock())
    )
    return [
        *list_consequences(impact),
        *format_forecast(forecast_effects(root, state, amendment, impact)),
    ]
