"""Resuming a conductor track: after the last task; ``plan.md`` compared with the log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.private import read_regular
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from projections.words.text import passed

_MARKER = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+\[([ xX~])\]\s+(?:\*\*)?(.*)$")
#: A heading that is a task, perhaps with its marker; else a line below it says how it stands.
_HEADING = re.compile(r"^#{2,6}\s+(?:\[([ xX~])\]\s+)?(?:\*\*)?(Task\b.*)$", re.IGNORECASE)
_STATUS = re.compile(r"^\s*(?:[-*+]\s+)?\*\*Status:?\*\*:?\s*\[([ xX~])\]", re.IGNORECASE)
_ID = re.compile(r"(?:task\s+)?([A-Za-z]*-?\d+(?:[.\-]\d+)*)", re.IGNORECASE)
EXECUTE = "EXECUTE"


class PlannedTask(NamedTuple):
    """A task of ``plan.md``; ``line`` counts from 1."""

    id: str
    text: str
    done: bool
    line: int


def tasks_of(plan: Path) -> list[PlannedTask]:
    """Return the tasks of a plan in their order, none where there is no plan."""
    if not plan.is_file():
        return []
    lines = read_regular(plan).decode(errors="replace").splitlines()
    # Where tasks are headings, the items of lists below them are their steps.
    return _of_headings(lines) or _of_lists(lines)


def _of_lists(lines: list[str]) -> list[PlannedTask]:
    found: list[PlannedTask] = []
    for number, line in enumerate(lines, 1):
        marker = _MARKER.match(line)
        if marker is not None:
            found.append(_task(marker[2], marker[1], number, len(found) + 1))
    return found


def _of_headings(lines: list[str]) -> list[PlannedTask]:
    found: list[PlannedTask] = []
    waiting: str | None = None
    for number, line in enumerate(lines, 1):
        heading, status = _HEADING.match(line), _STATUS.match(line)
        if line.startswith("#"):
            waiting = heading[2] if heading is not None and heading[1] is None else None
        if heading is not None and heading[1] is not None:
            found.append(_task(heading[2], heading[1], number, len(found) + 1))
        elif waiting is not None and status is not None:
            found.append(_task(waiting, status[1], number, len(found) + 1))
            waiting = None
    return found


def _task(text: str, marker: str, line: int, number: int) -> PlannedTask:
    name = _ID.match(text.strip())
    id_ = name[1] if name is not None else str(number)
    return PlannedTask(id_, text.strip(), marker in "xX", line)


def same(one: str, other: str) -> bool:
    """Whether two spellings name one task: ``Task 2.1``, ``2.1``, ``task-2.1``."""
    return _bare(one) == _bare(other)


def _bare(id_: str) -> str:
    return re.sub(r"^task[\s_-]*", "", id_.strip().lower())


def resumption(state: Machine, plan: Path, resume_from: str | None, now: str) -> dict[str, Any]:
    """Return where to go on: step, task, and what does not agree.

    Raises `InvalidInput` where the plan has no task ``resume_from``.
    """
    tasks = tasks_of(plan)
    _check_task(tasks, resume_from)
    visit = state.visits.get(EXECUTE)
    last = str(visit.data["last_task"]) if visit and visit.data.get("last_task") else None
    done = {task.id for task in tasks if task.done}
    point, why = _point(tasks, last, resume_from, done)
    return {
        "step": state.working_phase,
        "status": state.status,
        "agent": state.definition.phases[state.working_phase].agent,
        "last_task": last,
        "next_task": point,
        "why": why,
        "stale": _stale(state, now),
        "differences": _differences(tasks, last),
    }


def _check_task(tasks: list[PlannedTask], named: str | None) -> None:
    known = [task.id for task in tasks]
    if named is not None and known and not any(same(named, id_) for id_ in known):
        raise InvalidInput(
            f"--resume-from {named}: expected a task of plan.md, which has: {', '.join(known)}",
            task=named,
            known=known,
        )


def _point(
    tasks: list[PlannedTask], last: str | None, resume_from: str | None, done: set[str]
) -> tuple[str | None, str]:
    """Return the task to begin with: after a completed one, else the one that is named."""
    wanted = resume_from if resume_from is not None else last
    if wanted is None:
        first = next((task.id for task in tasks if not task.done), None)
        return first, "nothing was done yet: the first open task"
    completed = (last is not None and same(wanted, last)) or any(same(wanted, id_) for id_ in done)
    if not completed:
        return wanted, f"{wanted} is not completed: begin with it"
    place = next((n for n, task in enumerate(tasks) if same(task.id, wanted)), None)
    after = [task.id for task in tasks[place + 1 :] if not task.done] if place is not None else []
    if place is None:
        return None, f"{wanted} is completed, and the plan does not name it: continue after it"
    return (after[0] if after else None), f"{wanted} is completed: continue after it"


def _differences(tasks: list[PlannedTask], last: str | None) -> list[dict[str, Any]]:
    place = next(
        (n for n, task in enumerate(tasks) if last is not None and same(task.id, last)), -1
    )
    found: list[dict[str, Any]] = []
    if last is not None and tasks and place < 0:
        found.append({"task": last, "line": None, "why": "the log's last task is not in the plan"})
    for number, task in enumerate(tasks):
        if number <= place and not task.done:
            why = "open in the plan, done by the log"
            found.append({"task": task.id, "line": task.line, "why": why})
        elif number > place and task.done:
            why = "done in the plan, not yet by the log"
            found.append({"task": task.id, "line": task.line, "why": why})
    return found


def _stale(state: Machine, now: str) -> str | None:
    due = state.definition.phases[state.phase].due_seconds if not state.is_final else None
    if due is None or state.status != "IN_PROGRESS":
        return None
    late = passed(state.visit.updated_at or state.visit.entered_at, now)
    if late is None or late <= due:
        return None
    heard = f"it was last heard of {int(late // 60)} min ago"
    return f"{state.phase} is to report every {due // 60} min; {heard}"
