"""Describe how a track of a machine continues in a new session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import Machine
from extensions.machines.service.track_plan import PlannedTask, normalize_task_id, read_tasks
from extensions.machines.views.documents import list_file_paths
from projections.words.text import seconds_since
from service.root.root import Root


def track_resumption(
    root: Root, state: Machine, resume_from: str | None, now: str
) -> dict[str, Any]:
    """Return the point at which a conductor track continues: its step and its next task.

    The result also lists contradictions between the plan and the log. Raises `InvalidInput` if the
    plan does not contain the task ``resume_from``.
    """
    folder = PurePath(list_file_paths(state)["metadata"]).parent
    tasks = read_tasks(root.path / folder / "plan.md")
    known = [task.id for task in tasks]
    if resume_from is not None and tasks and not any(one.is_named(resume_from) for one in tasks):
        raise InvalidInput(
            (
                f"the file plan.md contains no task {resume_from}, which --resume-from names. "
                f"Tasks in this file: {', '.join(known)}."
            ),
            task=resume_from,
            known=known,
        )
    visit = state.visits.get("EXECUTE")
    last = str(visit.data["last_task"]) if visit and visit.data.get("last_task") else None
    point, why = _choose_start_task(tasks, last, resume_from)
    return {
        "step": state.working_phase,
        "status": state.status,
        "agent": state.definition.phases[state.working_phase].agent,
        "last_task": last,
        "next_task": point,
        "why": why,
        "stale": _explain_stale_phase(state, now),
        "differences": list(_list_plan_differences(tasks, last)),
    }


def _choose_start_task(
    tasks: list[PlannedTask], last: str | None, resume_from: str | None
) -> tuple[str | None, str]:
    """Return the task with which to continue, or None, and the reason for this choice."""
    open_ = [task.id for task in tasks if not task.done]
    wanted = resume_from if resume_from is not None else last
    if wanted is None:
        return next(iter(open_), None), "no task is done yet: start with the first open task"
    is_last = last is not None and normalize_task_id(wanted) == normalize_task_id(last)
    if not is_last and not any(task.done and task.is_named(wanted) for task in tasks):
        return wanted, f"{wanted} is not completed: start with this task"
    place = next((n for n, task in enumerate(tasks) if task.is_named(wanted)), None)
    if place is None:
        return None, f"{wanted} is completed, but not in the plan: choose the next task yourself"
    after = (task.id for task in tasks[place + 1 :] if not task.done)
    return next(after, None), f"{wanted} is completed: continue with the next open task"


def _list_plan_differences(tasks: list[PlannedTask], last: str | None) -> Iterator[dict[str, Any]]:
    place = next((n for n, task in enumerate(tasks) if task.is_named(last)), -1)
    if last is not None and tasks and place < 0:
        yield {"task": last, "line": None, "why": "the last task in the log is missing in the plan"}
    for number, task in enumerate(tasks):
        if task.done != (number <= place):
            why = "done in the plan, but not in" if task.done else "open in the plan, but done in"
            yield {"task": task.id, "line": task.line, "why": f"{why} the log"}


def _explain_stale_phase(state: Machine, now: str) -> str | None:
    due = state.definition.phases[state.phase].due_seconds if not state.is_final else None
    if due is None or state.status != "IN_PROGRESS":
        return None
    late = seconds_since(state.visit.updated_at or state.visit.entered_at, now)
    if late is None or late <= due:
        return None
    heard = f"the last report was {int(late // 60)} min ago"
    return f"{state.phase} must report every {due // 60} min; {heard}"
