"""What the pages see beside the log, through those who know how to look."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path

from cli.frame.impact import consequences, foreseen
from eventstore.event import Actor
from lifecycle.rules.impact import foresee, impact_of
from lifecycle.state.workflow import Amendment, Stage, Workflow
from pages.shelf import Sight
from projections.words.account import Seen
from reconciler.context import Jobs
from reconciler.control.job_output import saying
from reconciler.dpdispatcher.late_runner import late_runner
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import look
from service.errors import ServiceError
from service.reading.log import WorkflowLog
from service.root.disk import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import kept_folders
from service.writing.workflow_service import Service

#: Lines of a job that are shown, and letters of them.
_LINES, _LETTERS = 20, 8000
#: Who looks; it never acts.
_LOOKER = Actor("user", "pages")


def _silent(*_: object, **__: object) -> None:
    """Say nothing: who looks has nobody to tell."""


def sight() -> Sight:
    """Return what is looked at with: jobs of this machine, files of the root."""
    return Sight(_tail, _seen, _impact)


def _tail(root: Path, log: WorkflowLog, state: Workflow, stage: Stage) -> str:
    """Return the last lines of a stage's job; of one on another machine what command tells them."""
    attempt = stage.attempt
    if attempt is None:
        return ""
    service = Service(Root(root), log, _LOOKER)
    jobs = Jobs(service, late_runner(), _silent, _silent)
    try:
        with closing(saying(jobs, state, stage, attempt.id, err=False, last=_LINES)) as heard:
            if heard.is_far:
                return f"(on another machine: wfctl logs -f {stage.id})"
            lines: deque[bytes] = deque(maxlen=_LINES)
            for said in heard.new():
                lines.extend(said.content.splitlines())
    except (OSError, ReconcilerError, ServiceError) as error:
        return f"(cannot be read: {error})"
    return b"\n".join(lines).decode("utf-8", "replace")[-_LETTERS:]


def _seen(root: Path, log: WorkflowLog, state: Workflow) -> Seen:
    return look(Root(root), log, state)


def _impact(root: Path, state: Workflow, amendment: Amendment) -> list[str]:
    impact = impact_of(state, amendment, kept_folders(root, state), utc_text(system_clock()))
    return [*consequences(impact), *foreseen(foresee(state, amendment, impact))]
