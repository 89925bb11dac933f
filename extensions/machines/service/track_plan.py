"""Read the tasks in the ``plan.md`` of a conductor track, and their progress."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from eventstore.regular_files import read_regular

_MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+\[([ xX~!])\]\s+(?:\*\*)?(.*)$")
#: A heading that names a task, with an optional marker for its status. Without a marker, a line
#: below states the status.
_HEADING = re.compile(r"^#{2,6}\s+(?:\[([ xX~!])\]\s+)?(?:\*\*)?(Task\b.*)$", re.IGNORECASE)
_STATUS = re.compile(r"^\s*(?:[-*+]\s+)?\*\*Status:?\*\*:?\s*\[([ xX~!])\]", re.IGNORECASE)
_ID = re.compile(r"(?:task\s+)?([A-Za-z]*-?\d+(?:[.\-]\d+)*)", re.IGNORECASE)


class PlannedTask(NamedTuple):
    """A task in ``plan.md``. ``line`` counts from 1.

    A task with the marker for blocked tasks counts as started.
    """

    id: str
    done: bool
    line: int
    is_begun: bool = False

    def is_named(self, other: str | None) -> bool:
        """Return whether a spelling names this task: ``Task 2.1``, ``2.1``, ``task-2.1``."""
        return other is not None and normalize_task_id(self.id) == normalize_task_id(other)


def normalize_task_id(id_: str) -> str:
    """Return the id of a task in lower case and without the word ``task``."""
    return re.sub(r"^task[\s_-]*", "", id_.strip().lower())


def read_tasks(plan: Path) -> list[PlannedTask]:
    """Return the tasks of a plan in order, or an empty list if the file does not exist."""
    if not plan.is_file():
        return []
    lines = read_regular(plan).decode(errors="replace").splitlines()
    listed = ((number, _MARKER.match(line)) for number, line in enumerate(lines, 1))
    # If headings name the tasks, list items below them are steps of these tasks and not tasks
    # themselves.
    said = list(_iterate_heading_tasks(lines)) or [
        (n, one[1], one[2]) for n, one in listed if one is not None
    ]
    names = [_ID.match(text.strip()) for _, _, text in said]
    return [
        PlannedTask(name[1] if name else str(number), marker in "xX", line, marker != " ")
        for number, (name, (line, marker, _)) in enumerate(zip(names, said, strict=True), 1)
    ]


def _iterate_heading_tasks(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, the marker and the text of each heading that names a task."""
    waiting: str | None = None
    for number, line in enumerate(lines, 1):
        heading, status = _HEADING.match(line), _STATUS.match(line)
        if line.startswith("#"):
            waiting = heading[2] if heading is not None and heading[1] is None else None
        if heading is not None and heading[1] is not None:
            yield number, heading[1], heading[2]
        elif waiting is not None and status is not None:
            yield number, status[1], waiting
            waiting = None
