"""What the pages see beside the log, through those who know how to look."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

from cli.frame.impact import consequences, foreseen, foresight
from eventstore.event import Actor
from lifecycle.errors import Refused
from lifecycle.rules.impact import impact_of
from lifecycle.state.workflow import Amendment, Stage, Workflow
from pages.shelf import Sight
from projections.words.account import Seen
from reconciler.context import Jobs
from reconciler.control.job_output import saying
from reconciler.dpdispatcher.late_runner import late_runner
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import look
from reconciler.sweep.table import row_of
from reconciler.sweep.tasks import counts_told, tasks_of
from service.errors import ServiceError
from service.reading.log import WorkflowLog
from service.root.disk import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import kept_folders
from service.writing.workflow_service import Service

#: Lines of a job that are shown, and letters of them; lines of a page of its own.
_LINES, _LETTERS, _MANY = 20, 8000, 400
#: Who looks; it never acts.
_LOOKER = Actor("user", "pages")


def _silent(*_: object, **__: object) -> None:
    """Say nothing: who looks has nobody to tell."""


def sight() -> Sight:
    """Return what is looked at with: jobs of this machine, files of the root."""
    return Sight(_tail, _printed, _seen, _impact, counts_told, _tasks)


def _tail(root: Path, log: WorkflowLog, state: Workflow, stage: Stage) -> str:
    """Return the last lines of a stage's job; of one on another machine what command tells them."""
    attempt = stage.attempt
    return "" if attempt is None else _said(root, log, state, stage, attempt.id)


def _printed(
    root: Path, log: WorkflowLog, state: Workflow, stage: Stage, attempt: str, err: bool
) -> str:
    return _said(root, log, state, stage, attempt, err=err, lines=_MANY)


def _said(
    root: Path,
    log: WorkflowLog,
    state: Workflow,
    stage: Stage,
    attempt: str,
    *,
    err: bool = False,
    lines: int = _LINES,
) -> str:
    """Return the last lines that an attempt printed."""
    service = Service(Root(root), log, _LOOKER)
    jobs = Jobs(service, late_runner(), _silent, _silent)
    try:
        with closing(saying(jobs, state, stage, attempt, err=err, last=lines)) as heard:
            if heard.is_far:
                return f"(on another machine: wfctl logs -f {stage.id})"
            found: deque[bytes] = deque(maxlen=lines)
            for said in heard.new():
                found.extend(said.content.splitlines())
    except (OSError, ReconcilerError, ServiceError) as error:
        return f"(cannot be read: {error})"
    return b"\n".join(found).decode("utf-8", "replace")[-_LETTERS * lines // _LINES :]


def _tasks(root: Path, state: Workflow, stage: Stage) -> list[dict[str, Any]]:
    """Return a record of each task, nothing of what cannot be looked at."""
    try:
        return [row_of(task) for task in tasks_of(root, state, stage)]
    except (OSError, Refused, ReconcilerError, ServiceError):
        return []


def _seen(root: Path, log: WorkflowLog, state: Workflow) -> Seen:
    return look(Root(root), log, state)


def _impact(root: Path, state: Workflow, amendment: Amendment) -> list[str]:
    impact = impact_of(state, amendment, kept_folders(root, state), utc_text(system_clock()))
    return [*consequences(impact), *foreseen(foresight(root, state, amendment, impact))]
