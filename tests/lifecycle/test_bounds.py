"""Limits of the values in an event, which wfctl also checks when it reads a forged event."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.words.limits import find_exceeded_limit

SEEN = {"total": 5, "points": "a", "done": "0-1,3", "failed": "2", "running": "4", "ended": 4}


@pytest.mark.parametrize("done", ["", "0", "0-4", "0,2,4", "0-1,3-4"])
def test_ordered_ranges_below_the_total_are_accepted(done: str) -> None:
    """An event may list task numbers as ordered ranges, such as "0-1,3", below the total."""
    assert find_exceeded_limit("tasks.observed", {**SEEN, "done": done}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"done": "5"},
        {"failed": "0-5"},
        {"lost": "3-1"},
        {"running": "1,1"},
        {"done": "2-3,0"},
        {"done": "0-99999999999999999999"},
    ],
    ids=str,
)
def test_unknown_or_repeated_task_is_out_of_bounds(
    wrong: dict[str, Any],
) -> None:
    """wfctl rejects such task numbers, because a forged event could otherwise fill the memory."""
    why = find_exceeded_limit("tasks.observed", {**SEEN, **wrong})
    assert why is not None
    assert next(iter(wrong)) in why
