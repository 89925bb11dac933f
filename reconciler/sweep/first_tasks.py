"""Choose the first tasks of a sweep, which must succeed before the other tasks start.

An attempt computes either the first tasks or, after they have succeeded, the other tasks. The keys
of the first tasks are in the description of the attempt's tasks.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import describe_first_tasks
from reconciler.attempt.paths import AttemptPaths, recorded_attempt_paths
from reconciler.records import traces

if TYPE_CHECKING:
    from reconciler.sweep.tasks import Task

#: Field with the keys of the first tasks, in the description of an attempt's tasks.
FIRST_KEYS = "first"


def choose_first_tasks(
    known: Sequence[Task], number: int, earlier: Sequence[str], last: Container[str]
) -> list[str]:
    """Return the keys of the first tasks that must still succeed, and of those that have.

    Returns an empty list if ``number`` tasks are done, because the other tasks may then start.
    ``earlier`` are the keys that a replaced attempt chose, which stay the same. Tasks with a key in
    ``last`` are chosen only if there are no others.
    """
    done = {task.point.key for task in known if task.state == "done"}
    if earlier:
        keys = {task.point.key for task in known}
        chosen = [key for key in earlier if key in keys]
    else:

        def rank(task: Task) -> tuple[bool, bool, bool]:
            key = task.point.key
            return key not in done, key in last, not task.to_judge

        chosen = [task.point.key for task in sorted(known, key=rank)[:number]]
    return [] if done.issuperset(chosen) else chosen


def read_first_tasks(attempt: AttemptPaths) -> list[str]:
    """Return the keys of the first tasks that an attempt computes, or [] if it computes others."""
    found = (traces.read_json(attempt.task_head) or {}).get(FIRST_KEYS)
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []


def describe_start(
    root: Path, state: Workflow, stage: Stage, counts: Mapping[str, int] | None
) -> str | None:
    """Return a sentence on the tasks that must succeed first, or None if all tasks may start.

    ``counts`` are the numbers of the stage's tasks by status, or None if no task is known. While an
    attempt is open, its own first tasks are counted, because the option --first may have added
    some.
    """
    total = sum(counts.values()) if counts else 0
    done = counts["done"] if counts else 0
    if stage.open_attempt is None:
        is_waiting = stage.status in (Status.PENDING, Status.READY, Status.PREPARING)
        return stage.work.describe_start(done, total) if is_waiting else None
    attempt = recorded_attempt_paths(root, state.id, stage.id, stage.open_attempt)
    first = len(read_first_tasks(attempt))
    return describe_first_tasks(first, total - first) if first and total else None
