"""Small plots of metrics, as an SVG picture or in braille characters for a terminal."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from projections.drawing.plot_svg import draw_plot
from projections.drawing.plots import draw_braille_plot, plot_of_attempts, plot_of_tasks
from tests.sweeps.support import begun, sweep


def rows(**lists: list[Any]) -> list[dict[str, Any]]:
    """Return one row for each combination of the values. Its metric is the sum of the numbers."""
    found: list[dict[str, Any]] = [{}]
    for name, values in lists.items():
        found = [{**one, name: value} for one in found for value in values]
    return [
        {"values": one, "metrics": {"e": float(sum(v for v in one.values() if v != "x"))}}
        for one in found
    ]


def test_plot_axis_is_the_parameter_with_the_most_values() -> None:
    """Each combination of the other parameters is one line, and values of seeds are averaged."""
    plot = plot_of_tasks(rows(T=[1, 2, 3], L=[8, 16], seed=[0, 2, 4, 6, 8]), "e")
    assert plot is not None
    assert (plot.over, list(plot.lines)) == ("T", ["L = 8", "L = 16"])
    first = plot.lines["L = 8"][0]
    assert (first.x, first.y) == (1, 13)
    assert first.error == pytest.approx(2**0.5)


def test_plot_axis_can_be_chosen() -> None:
    """wfctl refuses a parameter with text, or with only one value, as the axis."""
    every = rows(T=[1, 2, 3], L=[8, 16], kind=["x"])
    assert plot_of_tasks(every, "e", "L") is not None
    assert plot_of_tasks(every, "e", "kind") is None
    assert plot_of_tasks(rows(T=[1]), "e") is None
    assert plot_of_tasks([], "e") is None


def test_zipped_parameters_are_one_line() -> None:
    """If each point has its own value of the second parameter, the points form one line."""
    zipped = [{"values": {"T": T, "width": T / 10}, "metrics": {"e": T}} for T in (1, 2, 3)]
    plot = plot_of_tasks(zipped, "e")
    assert plot is not None
    assert {name: len(points) for name, points in plot.lines.items()} == {"": 3}


def test_separate_ranges_are_separate_lines() -> None:
    """If two values of a parameter have different ranges, each range is a line."""
    values = [{"T": T, "L": 8 if T < 3 else 16} for T in (1, 2, 3, 4)]
    plot = plot_of_tasks([{"values": one, "metrics": {"e": 1}} for one in values], "e")
    assert plot is not None
    assert list(plot.lines) == ["L = 8", "L = 16"]


def test_labels_of_a_plot_stay_inside_the_picture() -> None:
    """Long names of lines and large numbers are not cut, and no line has the colour of failure."""
    kinds = ["a long name of a lattice", "another long name of a lattice"]
    points = [(T, kind) for T in (1, 2, 3) for kind in kinds]
    big = [{"values": {"T": T, "lattice": one}, "metrics": {"e": 1e9 + T}} for T, one in points]
    plot = plot_of_tasks(big, "e", unit="eV")
    assert plot is not None
    picture = ET.fromstring(draw_plot(plot))
    width = float(picture.get("width", "0"))
    assert width <= 360
    texts = picture.findall("{*}text")
    assert {f"lattice = {kind}" for kind in kinds} <= {one.text for one in texts}
    for one in texts:
        start, length = float(one.get("x", "")), len(one.text or "") * 7
        before = {"end": length, "middle": length / 2}.get(one.get("text-anchor", ""), 0)
        assert start - before >= 0, one.text
        assert start - before + length <= width, one.text
    assert "var(--failed)" not in {one.get("stroke") for one in picture.iter()}


@pytest.mark.parametrize("numbers", [[1.0, 2.0], [1.0, 1.0], [0.0, 0.0], [-1e300, 1e300], [1e-9]])
def test_plots_are_well_formed_in_both_forms(numbers: list[float]) -> None:
    """SVG and braille plots work for equal, huge and tiny values."""
    attempts = [
        SimpleNamespace(metrics=[{"name": "e", "value": value, "error": None}])
        for value in [*numbers, numbers[0]]
    ]
    plot = plot_of_attempts(attempts, "e")
    assert plot is not None
    picture = ET.fromstring(draw_plot(plot))
    assert len(picture.findall(".//{*}circle")) == len(attempts)
    lines = draw_braille_plot(plot, width=30, height=6)
    assert len(lines) == 9
    assert max(map(len, lines)) < 50


def test_metrics_command_prints_a_plot(tmp_path: Path) -> None:
    """`wfctl metrics --plot NAME` prints a plot; for an unknown name, it lists the metrics."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2, 3]}}))
    place.done("run")
    assert "⠤" in place.call("metrics", "stage-1", "--plot", "energy").out
    found = place.done("metrics", "stage-1", "--plot", "energy", "--over", "T")
    assert [one["y"] for one in found["lines"][""]] == [1, 2, 3]
    missing = place.json("metrics", "stage-1", "--plot", "nu")
    assert (missing.code, "energy" in missing.error["message"]) == (3, True)
    assert place.call("metrics", "--plot", "energy").code == 2
    assert json.dumps(found)


@pytest.mark.parametrize(
    "values", [(1e308, -1e308, 5e-324), (5e-324, 1e-323), (1.7e308, 1.7e308), (10**300, -(10**300))]
)
def test_extreme_numbers_can_be_plotted(values: tuple[float, ...]) -> None:
    """Values that are too large for the axis are drawn at its edge."""
    rows = [
        {"values": {"T": T, "seed": seed}, "metrics": {"x": value}}
        for T, value in enumerate(values)
        for seed in (1, 2)
    ]
    plot = plot_of_tasks(rows, "x")
    assert plot is not None
    assert "nan" not in draw_plot(plot)
    assert len(draw_braille_plot(plot)) > 3
