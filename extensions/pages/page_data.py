"""The data of a page: a workflow opened for one request, with its files and jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extensions.pages.render import PageRequest
from extensions.pages.served_workflows import ServedRoot, Shelf
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import Surroundings, next_actions
from projections.words.account import Seen
from projections.words.result_origin import Item, count_tasks_by_state
from projections.words.text import NextAction, format_duration
from service.files.stage_obstacles import read_surroundings
from service.reading.log import WorkflowLog
from service.reading.point_in_history import parse_moment
from service.root.root import Root

#: Maximum number of next actions on a page.
_NEXT = 250


@dataclass(frozen=True, slots=True)
class PageLook:
    """A workflow opened for one request; ``then`` is the state at ``?at=`` or the current state."""

    shelf: Shelf
    entry: ServedRoot
    log: WorkflowLog
    request: PageRequest
    now: Workflow
    then: Workflow

    @property
    def is_now(self) -> bool:
        """Whether the request shows the current state."""
        return self.request.text("at") is None

    @property
    def last(self) -> int:
        """The version below which events are searched."""
        end = self.then.head + 1
        return min(self.request.number("before") or end, end)

    def running(self, most: int) -> dict[str, str]:
        """Return the last output lines of running stages, by stage."""
        return self.shelf.running(self.entry, self.log, self.then, most)

    def counts(self, stage: Stage) -> dict[str, int] | None:
        """Return the number of tasks of a sweep by status, or None if nothing is known."""
        if self.is_now and self.entry.root is not None:
            return self.shelf.sight.counts(self.entry.root, self.then, stage)
        seen = stage.work.progress(stage.attempts)
        return count_tasks_by_state(seen) if seen is not None else None

    def tasks(self, stage: Stage) -> list[dict[str, Any]]:
        """Return a record of each task of a sweep, or an empty list without access to files."""
        if not self.is_now or self.entry.root is None:
            return []
        return self.shelf.sight.tasks(self.entry.root, self.then, stage)

    @property
    def common(self) -> dict[str, Any]:
        """The values that every page of a workflow shows."""
        return {
            "entry": self.entry,
            "state": self.then,
            "now": self.now,
            "at": self.request.text("at"),
            "is_live": self.is_now,
            "values": dict(self.request.values),
        }


def build_page_look(
    shelf: Shelf, entry: ServedRoot, log: WorkflowLog, request: PageRequest
) -> PageLook:
    """Return the workflow at the requested moment; raises as `WorkflowLog.current`."""
    now = shelf.state(entry, log)
    at = request.text("at")
    then = now if at is None else log.current(parse_moment(at))
    return PageLook(shelf, entry, log, request, now, then)


def format_known_duration(began: str | None, ended: str | None) -> str:
    """Return the duration between two times, or an empty string if the end is missing."""
    return format_duration(began, ended) if began and ended else ""


def seen_of(look: PageLook) -> Seen | None:
    """Return what is found in the files now, or None for a past state or without files."""
    if not look.is_now or look.entry.root is None:
        return None
    return look.shelf.sight.seen(look.entry.root, look.log, look.now)


def next_of(look: PageLook) -> list[NextAction]:
    """Return the next actions, each with its root."""
    if not look.is_now or look.entry.archive is not None:
        return []
    root = look.entry.root
    around = (
        read_surroundings(Root(root), look.now, look.log, seen_of(look)) if root else Surroundings()
    )
    found = next_actions(look.now, around)
    return [
        one._replace(command=f"{look.entry.command}{one.command.removeprefix('wfctl')}")
        for one in found[:_NEXT]
    ]


#: Kind of a pending decision → the commands with which a person decides.
_DECIDES = {
    "amendment": ("amend approve {}", "amend reject {}"),
    "drift": ("drift show",),
    "stale": ("rerun {}",),
    "failure": ("why {}",),
    "round": ("round show {}", 'round stop {} --reason "TEXT"'),
    "judgement": ('stage complete {} --evidence "TEXT"',),
}


def commands_of(entry: ServedRoot, wait: Item) -> list[str]:
    """Return the commands with which a person decides; an archive has none."""
    if entry.archive is not None:
        return []
    lines = _DECIDES.get(wait.kind, ("reconcile",))
    if wait.is_of_files and wait.kind not in ("amendment", "drift", "stale", "failure"):
        lines = (f"verify {wait.stage}",)
    return [f"{entry.command} {line.format(wait.subject)}" for line in lines]
