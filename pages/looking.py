"""What a page is made of: a workflow opened for one request, and what is seen beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from pages.render import PageRequest
from pages.shelf import ServedRoot, Shelf
from projections.screens.next_actions import Surroundings, next_actions
from projections.words.account import Seen
from projections.words.came_about import Item, counts_of
from projections.words.text import NextAction, duration
from service.files.surroundings import surroundings
from service.reading.log import WorkflowLog
from service.reading.moment import parse_moment
from service.root.root import Root

#: Next actions of a page.
_NEXT = 250


@dataclass(frozen=True, slots=True)
class PageLook:
    """A workflow opened for one request: ``then`` is the state at ``?at=``, else that of now."""

    shelf: Shelf
    entry: ServedRoot
    log: WorkflowLog
    request: PageRequest
    now: Workflow
    then: Workflow

    @property
    def is_now(self) -> bool:
        """Whether no moment was named."""
        return self.request.text("at") is None

    @property
    def last(self) -> int:
        """Below which version events are looked for."""
        end = self.then.head + 1
        return min(self.request.number("before") or end, end)

    def running(self, most: int) -> dict[str, str]:
        """Return by stage the last lines of what runs."""
        return self.shelf.running(self.entry, self.log, self.then, most)

    def counts(self, stage: Stage) -> dict[str, int] | None:
        """Return how many tasks of a sweep stand where; None if nothing is known of any."""
        if self.is_now and self.entry.root is not None:
            return self.shelf.sight.counts(self.entry.root, self.then, stage)
        seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
        return counts_of(seen) if seen is not None else None

    def tasks(self, stage: Stage) -> list[dict[str, Any]]:
        """Return a record of each task of a sweep, nothing of what is not looked at."""
        if not (self.is_now and self.entry.root is not None and is_sweep(stage.parameters)):
            return []
        return self.shelf.sight.tasks(self.entry.root, self.then, stage)

    @property
    def common(self) -> dict[str, Any]:
        """What every page of a workflow shows."""
        return {
            "entry": self.entry,
            "state": self.then,
            "now": self.now,
            "at": self.request.text("at"),
            "is_live": self.is_now,
            "values": dict(self.request.values),
        }


def looked(shelf: Shelf, entry: ServedRoot, log: WorkflowLog, request: PageRequest) -> PageLook:
    """Return the workflow as the request wants to see it; raises as `WorkflowLog.current`."""
    now = shelf.state(entry, log)
    at = request.text("at")
    then = now if at is None else log.current(parse_moment(at))
    return PageLook(shelf, entry, log, request, now, then)


def took(began: str | None, ended: str | None) -> str:
    """Return how long something took; nothing of what has not ended."""
    return duration(began, ended) if began and ended else ""


def seen_of(look: PageLook) -> Seen | None:
    """Return what a look at the files finds now; None of the past, or without files."""
    if not look.is_now or look.entry.root is None:
        return None
    return look.shelf.sight.seen(look.entry.root, look.log, look.now)


def next_of(look: PageLook) -> list[NextAction]:
    """Return what leads on, each with the root that it is for."""
    if not look.is_now or look.entry.archive is not None:
        return []
    root = look.entry.root
    around = surroundings(Root(root), look.now, look.log, seen_of(look)) if root else Surroundings()
    found = next_actions(look.now, around)
    return [
        one._replace(command=f"{look.entry.command}{one.command.removeprefix('wfctl')}")
        for one in found[:_NEXT]
    ]


#: By its kind, the commands with which a person decides what waits for one.
_DECIDES = {
    "amendment": ("amend approve {}", "amend reject {}"),
    "drift": ("drift show",),
    "stale": ("rerun {}",),
    "failure": ("why {}",),
    "round": ("round show {}", 'round stop {} --reason "TEXT"'),
    "judgement": ('stage complete {} --evidence "TEXT"',),
}


def commands_of(entry: ServedRoot, wait: Item) -> list[str]:
    """Return the commands that a person decides with; an archive has no such."""
    if entry.archive is not None:
        return []
    lines = _DECIDES.get(wait.kind, ("reconcile",))
    if wait.is_of_files and wait.kind not in ("amendment", "drift", "stale", "failure"):
        lines = (f"verify {wait.stage}",)
    return [f"{entry.command} {line.format(wait.subject)}" for line in lines]
