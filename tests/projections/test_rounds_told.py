"""Summaries and plots of a loop show its best value, if the loop has a direction to improve."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from lifecycle.state.workflow import Workflow
from projections.drawing.plot_svg import draw_plot
from projections.drawing.plots import draw_braille_plot, plots_of_rounds
from projections.words.rounds import LoopProgress, get_loop_progress, round_rows
from tests.lifecycle.support import given
from tests.lifecycle.test_rounds import PLAN


def told(values: list[float], metric: dict[str, Any], until: dict[str, Any]) -> LoopProgress:
    """Return the summary of a loop with the given values, metric fields and criterion."""
    return get_loop_progress(state_of(values, metric, until), "search")


def state_of(
    values: list[float], metric: dict[str, Any], *until: dict[str, Any], error: float | None = None
) -> Workflow:
    """Return the state of a workflow whose loop has one round for each value."""
    plan = deepcopy(PLAN)
    plan["stages"][1]["parameters"]["metrics"]["f"] = {"at": "f.json#/f", **metric}
    plan["rounds"]["search"]["until"] = [{"metric": "next.f", **one} for one in until]
    state = given(plan=plan)
    rounds = [
        replace(state.loops["search"].round, number=n, numbers={"next.f": number})
        for n, number in enumerate(({"value": one, "error": error} for one in values), 1)
    ]
    state.loops["search"] = replace(state.loops["search"], rounds=rounds)
    return state


@pytest.mark.parametrize(
    ("metric", "until", "best"),
    [
        ({"better": "lower"}, {"below": 0}, "next.f = 2"),
        ({"better": "higher"}, {"above": 9}, "next.f = 5"),
        ({}, {"no_better": 0.1, "rounds": 2, "better": "higher"}, "next.f = 5"),
    ],
)
def test_loop_summary_names_the_best_value(
    metric: dict[str, Any], until: dict[str, Any], best: str
) -> None:
    """The metric or the stop criterion defines whether lower or higher values are better."""
    found = told([3.0, 5.0, 2.0, 4.0], metric, until)
    assert (found.best, found.last) == (best, "next.f = 4")
    assert f"best {best}" in str(found)


def test_loop_summary_of_an_improving_error_has_no_best_value() -> None:
    """If a loop only reduces the error of a mean, the summary has only the last value."""
    found = told([3.0, 5.0, 4.0], {"error": "#/error"}, {"relative_error": 0.1})
    assert (found.best, found.last) == (None, "next.f = 4")
    assert "best" not in str(found)
    assert "next.f = 4" in str(found)
    nothing = told([], {}, {"below": 0})
    assert (nothing.best, nothing.last) == (None, None)


def test_criterion_is_plotted_over_the_rounds() -> None:
    """The plot shows values with error bars, the best value so far, and the limits."""
    until = ({"below": 0.5}, {"no_better": 0.1, "rounds": 2}, {"above": 9})
    state = state_of([3.0, 5.0, 2.0, 4.0], {"better": "lower"}, *until, error=0.25)
    (plot,) = plots_of_rounds(state, "search")
    assert (plot.over, plot.of) == ("round", "next.f")
    assert [tuple(one) for one in plot.lines[""]] == [
        (1, 3, 0.25), (2, 5, 0.25), (3, 2, 0.25), (4, 4, 0.25),
    ]  # fmt: skip
    assert [one.y for one in plot.best] == [3, 3, 2, 2]
    assert plot.limits == {"below 0.5": 0.5, "above 9": 9}
    picture = ET.fromstring(draw_plot(plot))
    numbers, best = (one.get("points", "") for one in picture.findall("{*}polyline"))
    assert (len(numbers.split()), len(best.split())) == (4, 7)
    assert len({y for _, y in (one.split(",") for one in best.split())}) == 2
    assert len([one for one in picture.findall("{*}line") if one.get("stroke-dasharray")]) == 2
    assert {"best so far", "below 0.5", "above 9"} <= {
        one.text for one in picture.findall("{*}text")
    }
    assert draw_braille_plot(plot)[-1].endswith("lines: next.f, best so far, below 0.5, above 9")


def test_plot_without_best_or_limit_shows_values_only() -> None:
    """A criterion on the error adds no limit to the plot. A single round has no plot."""
    sharper = state_of([3.0, 5.0], {"error": "#/error"}, {"relative_error": 0.1})
    (plot,) = plots_of_rounds(sharper, "search")
    assert (list(plot.best), plot.limits) == ([], {})
    higher = {"no_better": 0.1, "rounds": 2, "better": "higher"}
    (plot,) = plots_of_rounds(state_of([3.0, 5.0, 4.0], {}, higher), "search")
    assert [one.y for one in plot.best] == [3, 5, 5]
    assert plots_of_rounds(state_of([3.0], {}, {"below": 0}), "search") == []


@pytest.mark.parametrize("limit", [1e308, -1e308, 5e-324, 3.0])
def test_extreme_limits_can_be_plotted(limit: float) -> None:
    """A limit that is too large for the axis is drawn at its edge."""
    (plot,) = plots_of_rounds(state_of([3.0, 3.0], {}, {"below": limit}), "search")
    assert "nan" not in draw_plot(plot)
    assert len(draw_braille_plot(plot)) > 3


def test_plot_shows_the_unit_of_a_metric() -> None:
    """The plot shows the unit next to the name, unless the rounds have different units."""
    state = state_of([3.0, 5.0], {}, {"below": 3.5})
    loop = state.loops["search"]

    def drawn(*units: str) -> list[str]:
        rounds = [
            replace(one, numbers={"next.f": {**one.numbers["next.f"], "unit": unit}})
            for one, unit in zip(loop.rounds, units, strict=True)
        ]
        state.loops["search"] = replace(loop, rounds=rounds)
        (plot,) = plots_of_rounds(state, "search")
        texts = ET.fromstring(draw_plot(plot)).findall("{*}text")
        heights = sorted(float(one.get("y", "")) for one in texts)
        assert heights[1] - heights[0] >= 12
        return [
            next(one.text or "" for one in texts if one.get("y") == "12"),
            draw_braille_plot(plot)[0],
        ]

    assert drawn("kJ/mol", "kJ/mol") == ["next.f in kJ/mol"] * 2
    assert drawn("kJ/mol", "eV") == ["next.f"] * 2


@pytest.mark.parametrize(("limit", "arrow"), [({"below": -1000}, "↓"), ({"above": 1000}, "↑")])
def test_distant_limit_is_named_at_the_edge_of_the_plot(limit: dict[str, Any], arrow: str) -> None:
    """If a limit is far from all values, the plot names it and draws no line."""
    (plot,) = plots_of_rounds(state_of([3.0, 5.0, 2.0, 4.0], {}, limit), "search")
    picture = ET.fromstring(draw_plot(plot))
    heights = [float(one.get("cy", "")) for one in picture.findall("{*}circle")]
    assert max(heights) - min(heights) > 150
    assert not [one for one in picture.findall("{*}line") if one.get("stroke-dasharray")]
    ((test, most),) = limit.items()
    name = f"{arrow} {test} {most}"
    assert name in {one.text for one in picture.findall("{*}text")}
    lines = draw_braille_plot(plot)
    assert (lines[1][0], lines[12][0]) == ("5", "2")
    assert lines[-1].strip() == f"off the scale: {name}"


@pytest.mark.parametrize("rounds", range(3, 31))
def test_round_axis_has_at_least_two_labels(rounds: int) -> None:
    """The plot labels at least two rounds, and only whole numbers."""
    (plot,) = plots_of_rounds(state_of([1.0] * rounds, {}, {"below": 0}), "search")
    texts = ET.fromstring(draw_plot(plot)).findall("{*}text")
    named = [one.text or "" for one in texts if one.get("text-anchor") == "middle"]
    assert len([one for one in named if one.isdigit()]) >= 2, named


def test_number_of_a_single_point_is_singular() -> None:
    """The summary and the table of a loop say "1 point" and "2 points"."""
    state = state_of([3.0], {}, {"below": 0})
    loop = state.loops["search"]
    assert "1 point so far" in str(get_loop_progress(state, "search"))
    for points, count in (([{"x": 1}], "1 point"), ([{"x": 1}, {"x": 2}], "2 points")):
        loop.rounds = [*loop.rounds[:1], replace(loop.rounds[0], number=2, points=points)]
        assert round_rows(state, "search")[1][1] == count
