"""The verdicts on ended attempts of a sweep, which follow from the number of tasks by result."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.verdict.table import (
    TASK_ROWS,
    Action,
    TaskCounts,
    derive_verdict,
    verdict_of_tasks,
)
from tests.reconciler.support import JOB, submitted

#: Ten tasks that have all succeeded.
DONE: dict[str, Any] = {
    **dict.fromkeys(TaskCounts.__dataclass_fields__, 0),
    **dict.fromkeys(("first_failed", "why_short", "why_failed", "why_untold"), ""),
    "total": 10,
    "done": 10,
}

ROWS: list[tuple[int, str, Action, dict[str, int]]] = [
    (9, "TASKS_REMAIN", Action.LOST, {"done": 9, "left": 1}),
    (9, "TASKS_REMAIN", Action.LOST, {"done": 7, "left": 1, "untold": 2, "short": 2}),
    (9, "TASKS_REMAIN", Action.LOST, {"done": 2, "left": 1, "first": 2, "others": 7}),
    (8, "TASKS_FAILED", Action.FAILED, {"done": 8, "left": 1, "short": 1}),
    (7, "UNTOLD", Action.UNKNOWN, {"done": 9, "untold": 1}),
    (7, "UNTOLD", Action.UNKNOWN, {"done": 9, "untold": 1, "short": 1, "others": 1}),
    (9, "FIRST_TASKS_DONE", Action.CONTINUE, {"done": 2, "first": 2, "others": 8}),
    (9, "FIRST_TASKS_DONE", Action.CONTINUE, {"done": 1, "first": 2, "others": 1, "failed": 1}),
    (7, "TASKS_DONE", Action.SUCCEEDED, {}),
    (7, "TASKS_DONE", Action.SUCCEEDED, {"done": 8, "failed": 2, "tolerated": 2}),
    (8, "TASKS_FAILED", Action.FAILED, {"done": 7, "failed": 3, "tolerated": 2}),
]


@pytest.mark.parametrize(("row", "name", "action", "changes"), ROWS)
def test_counts_of_tasks_lead_to_their_row(
    row: int, name: str, action: Action, changes: dict[str, int]
) -> None:
    """Each example of counts gets the number, the name and the action of its row."""
    found = verdict_of_tasks(derive_verdict(submitted()), TaskCounts(**DONE | changes))
    assert (found.row, found.name, found.action) == (row, name, action)
    assert found.is_derived_from_tasks == (name != "UNTOLD")


def test_failed_first_task_decides_before_all_other_counts() -> None:
    """If one of the first tasks failed, the other tasks are not started."""
    counts = TaskCounts(
        **DONE
        | {"done": 1, "left": 8, "first": 2, "others": 8}
        | {"first_failed": "task 2", "why_failed": "why"}
    )
    found = verdict_of_tasks(derive_verdict(submitted()), counts)
    assert (found.row, found.name, found.action) == (8, "TASKS_FAILED", Action.FAILED)
    assert found.reason == "why; task 2 failed, so 8 tasks were not started"


def test_every_row_has_an_example() -> None:
    """Each row of the table decides at least one example."""
    assert {(what[0], str(what[1]), what[2]) for what, _, _ in TASK_ROWS} == {
        one[:3] for one in ROWS
    }


def test_reason_counts_the_tasks_and_repeats_the_verdict_on_the_jobs() -> None:
    """The number of remaining tasks is followed by the reason why their jobs ended."""
    of_jobs = derive_verdict(submitted(JOB))
    found = verdict_of_tasks(of_jobs, TaskCounts(**DONE | {"total": 12345, "left": 2345}))
    assert found.reason == (
        f"10 of 12,345 tasks are done, and 2,345 must still be computed: {of_jobs.reason}"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "10 of 10 tasks are done"),
        ({"done": 9, "failed": 1, "tolerated": 1}, "9 of 10 tasks are done, 1 failed, which"),
        ({"done": 2, "first": 2, "others": 8}, "the first tasks (2 of 10) succeeded"),
        ({"done": 8, "left": 2, "short": 2}, "; 2 of 10 tasks need more resources"),
    ],
)
def test_reason_contains_the_counts(changes: dict[str, int], reason: str) -> None:
    """The reason has the number of tasks that led to the verdict."""
    counts = TaskCounts(**DONE | changes)
    assert verdict_of_tasks(derive_verdict(submitted()), counts).reason.startswith(reason)
