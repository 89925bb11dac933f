"""What is told of a loop: the best so far where better is defined, else the last."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from projections.words.rounds import LoopTold, loop_told
from tests.lifecycle.support import given
from tests.lifecycle.test_rounds import PLAN


def told(values: list[float], metric: dict[str, Any], until: dict[str, Any]) -> LoopTold:
    """Return a loop whose rounds came to values, of a metric and a criterion with more fields."""
    plan = deepcopy(PLAN)
    plan["stages"][1]["parameters"]["metrics"]["f"] = {"at": "f.json#/f", **metric}
    plan["rounds"]["search"]["until"] = {"metric": "next.f", **until}
    state = given(plan=plan)
    rounds = [
        replace(state.loops["search"].round, number=n, numbers={"next.f": {"value": value}})
        for n, value in enumerate(values, 1)
    ]
    state.loops["search"] = replace(state.loops["search"], rounds=rounds)
    return loop_told(state, "search")


@pytest.mark.parametrize(
    ("metric", "until", "best"),
    [
        ({"better": "lower"}, {"below": 0}, "next.f = 2"),
        ({"better": "higher"}, {"above": 9}, "next.f = 5"),
        ({}, {"no_better": 0.1, "rounds": 2, "better": "higher"}, "next.f = 5"),
    ],
)
def test_the_best_is_told_where_it_is_said_what_is_better(
    metric: dict[str, Any], until: dict[str, Any], best: str
) -> None:
    """By the metric or by the criterion."""
    found = told([3.0, 5.0, 2.0, 4.0], metric, until)
    assert (found.best, found.last) == (best, "next.f = 4")
    assert f"best {best}" in str(found)


def test_a_number_that_only_becomes_sharper_has_no_best() -> None:
    """Of a mean with its error, the last is told."""
    found = told([3.0, 5.0, 4.0], {"error": "#/error"}, {"relative_error": 0.1})
    assert (found.best, found.last) == (None, "next.f = 4")
    assert "best" not in str(found)
    assert "next.f = 4" in str(found)
    nothing = told([], {}, {"below": 0})
    assert (nothing.best, nothing.last) == (None, None)
