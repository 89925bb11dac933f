"""Collect the data of a web page from a workflow, its files and its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extensions.pages.render import PageRequest
from extensions.pages.served_workflows import ServedRoot, ServedWorkflows
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import Surroundings, next_actions
from projections.words.account import FileCheckResult
from projections.words.result_origin import AttentionItem
from projections.words.stage_progress import StageProgress, count_tasks_by_state
from projections.words.text import NextAction, format_duration
from service.files.stage_obstacles import read_surroundings
from service.reading.log import WorkflowLog
from service.reading.point_in_history import parse_moment
from service.root.root import Root

#: Maximum number of next actions on a page.
_NEXT = 250


@dataclass(frozen=True, slots=True)
class PageLook:
    """The data for one request of a page.

    ``now`` is the current state of the workflow. ``then`` is the state at the moment in the address
    (``?at=``), or the current state.
    """

    shelf: ServedWorkflows
    entry: ServedRoot
    log: WorkflowLog
    request: PageRequest
    now: Workflow
    then: Workflow

    @property
    def is_now(self) -> bool:
        """Whether the request is about the current state."""
        return self.request.text("at") is None

    @property
    def last(self) -> int:
        """The version at which the listed events end. Only earlier events are searched."""
        end = self.then.head + 1
        return min(self.request.number("before") or end, end)

    def running(self, most: int) -> dict[str, str]:
        """Return the last output lines of at most ``most`` running stages, by stage id."""
        return self.shelf.running(self.entry, self.log, self.then, most)

    def progress(self, stage: Stage) -> StageProgress | None:
        """Return the progress of a running stage or of a sweep, if a bar can show it."""
        if self.is_now and self.entry.root is not None:
            found = self.shelf.sight.progress(self.entry.root, self.then, stage)
            return found if found is not None and found.has_bar else None
        seen = stage.work.progress(stage.attempts)
        return StageProgress(count_tasks_by_state(seen)) if seen is not None else None

    def tasks(self, stage: Stage) -> list[dict[str, Any]]:
        """Return a record of each task of a sweep.

        The list is empty for a past moment, or if the files of the workflow are not available.
        """
        if not self.is_now or self.entry.root is None:
            return []
        return self.shelf.sight.tasks(self.entry.root, self.then, stage)

    @property
    def common(self) -> dict[str, Any]:
        """The values that are available on every page of a workflow."""
        return {
            "entry": self.entry,
            "state": self.then,
            "now": self.now,
            "at": self.request.text("at"),
            "is_live": self.is_now,
            "values": dict(self.request.values),
        }


def build_page_look(
    shelf: ServedWorkflows, entry: ServedRoot, log: WorkflowLog, request: PageRequest
) -> PageLook:
    """Return the data that answers a request about a workflow.

    Raises the errors of `WorkflowLog.current`, for example if the workflow does not exist.
    """
    now = shelf.state(entry, log)
    at = request.text("at")
    then = now if at is None else log.current(parse_moment(at))
    return PageLook(shelf, entry, log, request, now, then)


def format_known_duration(began: str | None, ended: str | None) -> str:
    """Return the duration between two times as text, or an empty string if one is missing."""
    return format_duration(began, ended) if began and ended else ""


def find_file_differences(look: PageLook) -> FileCheckResult | None:
    """Return the differences that a check of the workflow's files finds now.

    Returns None for a past moment, or if the files are not available.
    """
    if not look.is_now or look.entry.root is None:
        return None
    return look.shelf.sight.seen(look.entry.root, look.log, look.now)


def next_of(look: PageLook) -> list[NextAction]:
    """Return the next actions, with commands that work in any folder.

    The list is empty for a past moment and for an archive.
    """
    if not look.is_now or look.entry.archive is not None:
        return []
    root = look.entry.root
    around = (
        read_surroundings(Root(root), look.now, look.log, find_file_differences(look))
        if root
        else Surroundings()
    )
    found = next_actions(look.now, around)
    return [
        one._replace(command=f"{look.entry.command}{one.command.removeprefix('wfctl')}")
        for one in found[:_NEXT]
    ]


#: Kind of a pending decision → the commands with which a person makes this decision.
_DECIDES = {
    "amendment": ("amend approve {}", "amend reject {}"),
    "drift": ("drift show",),
    "stale": ("rerun {}",),
    "failure": ("why {}",),
    "round": ("round show {}", 'round stop {} --reason "TEXT"'),
    "judgement": ('stage complete {} --evidence "TEXT"',),
}


def list_decision_commands(entry: ServedRoot, wait: AttentionItem) -> list[str]:
    """Return the commands with which a person makes a pending decision.

    The list is empty for an archive, because commands cannot change it.
    """
    if entry.archive is not None:
        return []
    lines = _DECIDES.get(wait.kind, ("reconcile",))
    if wait.is_of_files and wait.kind not in ("amendment", "drift", "stale", "failure"):
        lines = (f"verify {wait.stage}",)
    return [f"{entry.command} {line.format(wait.subject)}" for line in lines]
