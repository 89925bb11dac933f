"""How large the values of an event may be, wherever it comes from."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.words.values import excess

SEEN = {"total": 5, "points": "a", "done": "0-1,3", "failed": "2", "running": "4", "ended": 4}


@pytest.mark.parametrize("done", ["", "0", "0-4", "0,2,4", "0-1,3-4"])
def test_places_below_the_total_and_in_order_are_taken(done: str) -> None:
    """As the ranges of a look are written."""
    assert excess("tasks.observed", {**SEEN, "done": done}) is None


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
def test_a_task_that_there_is_not_or_one_named_twice_is_out_of_bounds(
    wrong: dict[str, Any],
) -> None:
    """A forged row could else claim more than all, or fill the memory of who spells it out."""
    why = excess("tasks.observed", {**SEEN, **wrong})
    assert why is not None
    assert next(iter(wrong)) in why
