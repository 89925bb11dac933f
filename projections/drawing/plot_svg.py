"""Draw plots of metrics as SVG. They fit on a phone and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from projections.drawing import svg
from projections.drawing.plots import (
    Plot,
    PlotFrame,
    PlotPoint,
    build_frame,
    choose_ticks,
    compute_step_corners,
)
from projections.drawing.svg import format_element, format_text
from projections.words.format_numbers import format_quantity

#: Colours of the lines. The colour of failures is not among them.
_COLOURS = ("running", "person", "completed", "post_processing", "ready", "ink")
#: Size of the axes area, height of the title and of the x axis, and distance between labels and
#: their surroundings, in pixels. A phone shows the whole plot.
_WIDTH, _HEIGHT, _TOP, _BOTTOM, _GAP = 360, 170, 30, 40, 6
#: Height of a row of the legend, length of its line samples, and width of a character.
_ROW, _SAMPLE, _LETTER = 16, 16, 7
_STYLE = (
    ".plot{max-width:100%;height:auto}"
    ".plot .ground{fill:var(--card)}.plot text{fill:var(--ink);font:12px sans-serif}"
    ".plot .axis{stroke:var(--edge);fill:none}.plot .grid{stroke:var(--line)}"
)
#: Line styles for the best value so far and for limits.
_BEST: dict[str, Any] = {"stroke": "var(--edge)", "stroke_width": 1.5}
_LIMIT: dict[str, Any] = {"stroke": "var(--person)", "stroke_dasharray": "5 4"}


class _Canvas:
    """The positions of a plot's parts in pixels."""

    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.frame = build_frame(plot)
        xs = [one.x for points in plot.lines.values() for one in points]
        counted = all(one == int(one) for one in xs)
        ticks = choose_ticks(self.frame.left, self.frame.right, counted=counted)
        self.x_ticks = [one for one in ticks if one == int(one) or not counted]
        self.y_ticks = choose_ticks(self.frame.low, self.frame.high)
        self.legend = _place_legend(_list_legend_entries(plot, self.frame))
        rows = self.legend[-1].row + 1 if self.legend else 0
        # The numbers at the axes must fit into the margins.
        self.left = _GAP * 2 + _measure_widest(self.y_ticks)
        self.right = _WIDTH - _GAP - _measure_widest(self.x_ticks) / 2
        self.top = _TOP + rows * _ROW
        self.bottom = self.top + _HEIGHT
        self.height = self.bottom + _BOTTOM

    def locate(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a value in the drawing."""
        across, up = self.frame.relative_position(PlotPoint(x, y))
        width = self.right - self.left
        return self.left + across * width, self.top + (1 - up) * _HEIGHT


def _format_tick(value: float) -> str:
    return f"{value:.10g}"


def _measure_widest(ticks: Sequence[float]) -> float:
    return max((_measure_text(_format_tick(one)) for one in ticks), default=0.0)


def _measure_text(value: str) -> float:
    """Return the approximate width of a text in pixels."""
    return float(svg.count_columns(value) * _LETTER)


class _LegendEntry(NamedTuple):
    """An entry of the legend: its name, the style of its line if it has one, and its position."""

    name: str
    style: Mapping[str, Any] = {}
    x: float = 0.0
    row: int = 0


def _list_legend_entries(plot: Plot, frame: PlotFrame) -> Iterator[_LegendEntry]:
    """Yield the named lines of a plot, and limits outside of the plot with an arrow to them."""
    for place, name in enumerate(plot.lines):
        if name:
            yield _LegendEntry(name, {"stroke": _choose_colour(place), "stroke_width": 2})
    if plot.best:
        yield _LegendEntry("best so far", _BEST)
    for name, limit in plot.limits.items():
        if arrow := frame.out_of_range_arrow(limit):
            yield _LegendEntry(f"{arrow}{name}")


def _place_legend(entries: Iterable[_LegendEntry]) -> list[_LegendEntry]:
    """Return the entries of a legend with shortened names and with positions, in rows."""
    placed: list[_LegendEntry] = []
    x, row = 0.0, 0
    for one in entries:
        name = svg.shorten_text(one.name, (_WIDTH - _SAMPLE - 3 * _GAP) // _LETTER)
        width = (_SAMPLE + _GAP if one.style else 0) + 2 * _GAP + _measure_text(name)
        if x and x + width > _WIDTH:
            x, row = 0.0, row + 1
        placed.append(_LegendEntry(name, one.style, x + _GAP, row))
        x += width
    return placed


def _choose_colour(place: int) -> str:
    return f"var(--{_COLOURS[place % len(_COLOURS)]})"


def draw_plot(plot: Plot) -> str:
    """Return the plot as a self-contained ``svg`` element."""
    canvas = _Canvas(plot)
    parts = [*_draw_legend(canvas), *_draw_axes(canvas)]
    for place, points in enumerate(plot.lines.values()):
        parts += _draw_line(canvas, points, _choose_colour(place))
    parts += _draw_best_and_limits(canvas)
    return svg.format_picture(
        "plot", _STYLE, (_WIDTH, canvas.height), f"{plot.title} over {plot.over}", parts
    )


def _draw_legend(canvas: _Canvas) -> Iterator[str]:
    most = _WIDTH // _LETTER
    yield format_text(svg.shorten_text(canvas.plot.title, most), x=_GAP, y=12)
    for one in canvas.legend:
        y = _TOP + one.row * _ROW
        x, end = one.x, one.x + _SAMPLE
        if one.style:
            yield format_element("line", x1=x, x2=end, y1=y - 4, y2=y - 4, **one.style)
            x = end + _GAP
        yield format_text(one.name, x=x, y=y)


def _draw_axes(canvas: _Canvas) -> Iterator[str]:
    frame, left, right, bottom = canvas.frame, canvas.left, canvas.right, canvas.bottom
    for y in canvas.y_ticks:
        _, at = canvas.locate(frame.left, y)
        yield format_element("line", x1=left, x2=right, y1=at, y2=at, class_="grid")
        yield format_text(_format_tick(y), x=left - _GAP, y=at + 4, text_anchor="end")
    for x in canvas.x_ticks:
        at, _ = canvas.locate(x, frame.low)
        yield format_element("line", x1=at, x2=at, y1=bottom, y2=bottom + 4, class_="axis")
        yield format_text(_format_tick(x), x=at, y=bottom + 17, text_anchor="middle")
    corners = f"M{left:g} {canvas.top}V{bottom}H{right:g}"
    yield format_element("path", d=corners, class_="axis")
    name = svg.shorten_text(canvas.plot.over, 40)
    yield format_text(name, x=(left + right) / 2, y=canvas.height - _GAP, text_anchor="middle")


def _draw_line(canvas: _Canvas, points: Sequence[PlotPoint], colour: str) -> Iterator[str]:
    places = [canvas.locate(one.x, one.y) for one in points]
    yield _draw_polyline(places, stroke=colour, stroke_width=1.5)
    for one, (x, y) in zip(points, places, strict=True):
        if one.error and isfinite(one.error):
            above, below = (canvas.locate(one.x, one.y + s * one.error)[1] for s in (1, -1))
            yield format_element("line", x1=x, x2=x, y1=above, y2=below, stroke=colour)
        value = format_quantity(one.y, one.error, canvas.plot.unit)
        tip = svg.format_title(f"{canvas.plot.over} {one.x:.6g}: {value}")
        yield format_element("circle", tip, cx=x, cy=y, r=2.5, fill=colour)


def _draw_polyline(places: Iterable[tuple[float, float]], **style: object) -> str:
    path = " ".join(f"{svg.format_coordinate(x)},{svg.format_coordinate(y)}" for x, y in places)
    return format_element("polyline", points=path, fill="none", **style)


def _draw_best_and_limits(canvas: _Canvas) -> Iterator[str]:
    """Yield SVG elements for the best values so far (steps) and the limits (lines)."""
    plot, frame = canvas.plot, canvas.frame
    if plot.best:
        corners = compute_step_corners(plot.best)
        yield _draw_polyline([canvas.locate(one.x, one.y) for one in corners], **_BEST)
    for name, limit in plot.limits.items():
        if frame.out_of_range_arrow(limit):
            continue
        x, y = canvas.locate(frame.left, limit)
        yield format_element("line", x1=x, x2=canvas.right, y1=y, y2=y, **_LIMIT)
        # Write the name below the line if the line is near the top, because the legend is there.
        beside = y - 4 if y > canvas.top + 12 else y + 14
        yield format_text(name, x=x + 4, y=beside)
