"""Small plots: which values are drawn over which, in both forms."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from projections.drawing.plots import drawing, in_braille, plot_of_attempts, plot_of_tasks
from tests.sweeps.support import begun, sweep


def rows(**lists: list[Any]) -> list[dict[str, Any]]:
    """Return a row for each combination, whose number is the sum of its numbers."""
    found: list[dict[str, Any]] = [{}]
    for name, values in lists.items():
        found = [{**one, name: value} for one in found for value in values]
    return [
        {"values": one, "metrics": {"e": float(sum(v for v in one.values() if v != "x"))}}
        for one in found
    ]


def test_a_number_is_drawn_over_the_value_with_the_most_points() -> None:
    """A line for each of another value; seeds are averaged, with the error of the mean."""
    plot = plot_of_tasks(rows(T=[1, 2, 3], L=[8, 16], seed=[0, 2, 4, 6, 8]), "e")
    assert plot is not None
    assert (plot.over, list(plot.lines)) == ("T", ["L = 8", "L = 16"])
    first = plot.lines["L = 8"][0]
    assert (first.x, first.y) == (1, 13)
    assert first.error == pytest.approx(2**0.5)


def test_a_value_that_is_asked_for_is_drawn_over() -> None:
    """Text, or a value that never differs, cannot be."""
    every = rows(T=[1, 2, 3], L=[8, 16], kind=["x"])
    assert plot_of_tasks(every, "e", "L") is not None
    assert plot_of_tasks(every, "e", "kind") is None
    assert plot_of_tasks(rows(T=[1]), "e") is None
    assert plot_of_tasks([], "e") is None


@pytest.mark.parametrize("numbers", [[1.0, 2.0], [1.0, 1.0], [0.0, 0.0], [-1e300, 1e300], [1e-9]])
def test_each_plot_is_well_formed_in_both_forms(numbers: list[float]) -> None:
    """Equal numbers, huge and tiny ones; the window of a terminal is kept to."""
    attempts = [
        SimpleNamespace(metrics=[{"name": "e", "value": value, "error": None}])
        for value in [*numbers, numbers[0]]
    ]
    plot = plot_of_attempts(attempts, "e")
    assert plot is not None
    picture = ET.fromstring(drawing(plot))
    assert len(picture.findall(".//{*}circle")) == len(attempts)
    lines = in_braille(plot, width=30, height=6)
    assert len(lines) == 9
    assert max(map(len, lines)) < 50


def test_a_plot_is_asked_for_at_a_terminal(tmp_path: Path) -> None:
    """Over the points of a sweep; a name that is not there is told with those that are."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2, 3]}}))
    place.done("run")
    assert "⠤" in place.call("metrics", "stage-1", "--plot", "energy").out
    found = place.done("metrics", "stage-1", "--plot", "energy", "--over", "T")
    assert [one["y"] for one in found["lines"][""]] == [1, 2, 3]
    missing = place.json("metrics", "stage-1", "--plot", "nu")
    assert (missing.code, "it has energy" in missing.error["message"]) == (3, True)
    assert place.call("metrics", "--plot", "energy").code == 2
    assert json.dumps(found)


@pytest.mark.parametrize(
    "values", [(1e308, -1e308, 5e-324), (5e-324, 1e-323), (1.7e308, 1.7e308), (10**300, -(10**300))]
)
def test_the_largest_and_the_smallest_numbers_are_drawn(values: tuple[float, ...]) -> None:
    """At the edge if no axis reaches them; their mean over seeds too."""
    rows = [
        {"values": {"T": T, "seed": seed}, "metrics": {"x": value}}
        for T, value in enumerate(values)
        for seed in (1, 2)
    ]
    plot = plot_of_tasks(rows, "x")
    assert plot is not None
    assert "nan" not in drawing(plot)
    assert len(in_braille(plot)) > 3
