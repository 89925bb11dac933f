"""Small plots of metrics over parameters, attempts or rounds, and their drawing as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from math import ceil, floor, isfinite, log10, sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

from lifecycle.fold.rounds import better_direction, list_valid_rounds
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.replicates import REPLICATE
from lifecycle.words.metrics import Metric, is_number
from lifecycle.words.rounds import LoopDefinition
from projections.words.format_numbers import name_with_unit

#: Maximum number of lines in a plot. If a parameter has more values, their results are averaged.
_LINES = 6
#: Maximum number of plots of a sweep.
_PLOTS = 6
#: Maximum absolute value on an axis, and minimum difference between the ends of an axis.
_FAR, _NEAR = 1e300, 1e-300
#: Draw a limit to scale only if its distance from the data is at most this multiple of the data's
#: range.
_REACH = 2.0


class PlotPoint(NamedTuple):
    """A point in a plot. ``error`` is the standard error of ``y``, or None if unknown."""

    x: float
    y: float
    error: float | None = None


class Plot(NamedTuple):
    """A plot: the names of its axes, and its lines by name, with points ordered by ``x``.

    ``best`` contains the best value so far for each ``x``. ``limits`` contains named values of
    ``y`` to draw as horizontal lines. ``unit`` is the unit of ``y``, or None if it is unknown or
    differs between the points.
    """

    over: str
    of: str
    lines: dict[str, list[PlotPoint]]
    best: Sequence[PlotPoint] = ()
    limits: Mapping[str, float] = {}
    unit: str | None = None

    @property
    def title(self) -> str:
        """The title of the plot: the plotted metric with its unit."""
        return name_with_unit(self.of, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return the axes and the points of the plot as a dict of JSON values."""
        lines = {name: [one._asdict() for one in points] for name, points in self.lines.items()}
        return {"over": self.over, "metric": self.of, "lines": lines}


def plot_of_tasks(
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    over: str | None = None,
    unit: str | None = None,
) -> Plot | None:
    """Return the plot of a metric over a parameter of a sweep's tasks.

    ``rows`` come from the task table of the sweep, and ``over`` names the parameter. By default,
    ``over`` is the numeric parameter with the most different values. Tasks without a value of this
    parameter are omitted. A second parameter can split the points into several lines. Points that
    differ only in other parameters, such as seeds, are averaged, and have the error of their mean.
    Returns None if the parameter has fewer than two values.
    """
    having = [
        row
        for row in rows
        if is_number(row["metrics"].get(metric)) and (over is None or over in row["values"])
    ]
    values = {
        name: {str(row["values"].get(name)) for row in having}
        for name in dict.fromkeys(name for row in having for name in row["values"])
    }
    numeric = [name for name in values if all(is_number(row["values"].get(name)) for row in having)]
    if over is None:
        # Do not use a random seed as the horizontal axis if there is another numeric parameter,
        # because the order of seeds has no meaning.
        over = max(numeric, key=lambda name: (not _is_seed(name), len(values[name])), default="")
    if over not in numeric or len(values[over]) < 2:
        return None
    few = {name: len(found) for name, found in values.items() if 2 <= len(found) <= _LINES}
    rest = [name for name in few if name != over and _can_split_lines(having, over, name)]
    by = min(rest, key=few.__getitem__, default=None)
    groups: dict[str, dict[float, list[Mapping[str, Any]]]] = {}
    for row in having:
        line = _format_line_name(by, row["values"]) if by is not None else ""
        groups.setdefault(line, {}).setdefault(row["values"][over], []).append(row)
    lines = {
        name: [_compute_mean_point(x, found, metric) for x, found in sorted(places.items())]
        for name, places in sorted(groups.items(), key=lambda one: _numeric_sort_key(one[0]))
    }
    return Plot(over, metric, lines, unit=unit)


def _format_line_name(name: str, values: Mapping[str, Any]) -> str:
    return f"{name} = {values[name]}" if name in values else f"no {name}"


def plots_of_tasks(rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Metric]) -> list[Plot]:
    """Return a plot of each of the first metrics over the tasks of a sweep."""
    first = islice(metrics.items(), _PLOTS)
    plots = (plot_of_tasks(rows, name, unit=metric.unit) for name, metric in first)
    return [one for one in plots if one is not None]


def _is_seed(name: str) -> bool:
    return "seed" in name.lower() or name == REPLICATE


def _can_split_lines(rows: Sequence[Mapping[str, Any]], over: str, by: str) -> bool:
    """Return whether the parameter ``by`` splits the points into lines.

    If ``over`` determines ``by``, as in a zipped map, most lines would have only one point.
    """
    lines_at: dict[str, set[str]] = {}
    points_of: dict[str, set[str]] = {}
    for x, line in ((str(row["values"].get(over)), str(row["values"].get(by))) for row in rows):
        lines_at.setdefault(x, set()).add(line)
        points_of.setdefault(line, set()).add(x)
    is_crossed = any(len(lines) > 1 for lines in lines_at.values())
    return not _is_seed(by) and (is_crossed or all(len(xs) > 1 for xs in points_of.values()))


def _numeric_sort_key(name: str) -> tuple[float, str]:
    _, _, value = name.rpartition(" = ")
    try:
        return float(value), name
    except ValueError:
        return 0.0, name


def _clamp_value(value: float) -> float:
    return min(max(float(value), -_FAR), _FAR)


def _compute_mean_point(x: float, rows: Sequence[Mapping[str, Any]], metric: str) -> PlotPoint:
    values = [float(row["metrics"][metric]) for row in rows]
    if len(values) > 1:
        values = [_clamp_value(one) for one in values]
        return PlotPoint(x, fmean(values), stdev(values) / sqrt(len(values)))
    return PlotPoint(x, values[0], rows[0].get("errors", {}).get(metric))


def plot_of_attempts(attempts: Iterable[Any], metric: str) -> Plot | None:
    """Return the plot of a metric over the attempts (runs) of a stage.

    Return None if fewer than two attempts have the metric.
    """
    named = [
        (place, number)
        for place, attempt in enumerate(attempts, 1)
        for number in attempt.metrics
        if number["name"] == metric
    ]
    found = [PlotPoint(float(place), one["value"], one.get("error")) for place, one in named]
    unit = _unit_of(one for _, one in named)
    return Plot("attempt", metric, {"": found}, unit=unit) if len(found) > 1 else None


def _unit_of(numbers: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the common unit of all numbers, or None if their units differ or are unknown."""
    units = {one.get("unit") for one in numbers}
    return units.pop() if len(units) == 1 else None


def plots_of_rounds(state: Workflow, name: str) -> list[Plot]:
    """Return the plots of the metrics that decide when an optimization loop ends.

    Each plot shows a metric over the rounds of the loop. Rounds before a change of the loop's
    definition, and metrics with fewer than two rounds, are omitted. Raises KeyError for an unknown
    loop.
    """
    loop = state.loop(name)
    plots = (_plot_of_rounds(state, loop, one.metric) for one in loop.until)
    return list({one.of: one for one in plots if one is not None}.values())


def _plot_of_rounds(state: Workflow, loop: LoopDefinition, metric: str) -> Plot | None:
    numbers = {
        one.number: number
        for one in list_valid_rounds(state, state.loops[loop.name])
        if (number := one.numbers.get(metric)) is not None
    }
    found = [
        PlotPoint(float(place), float(one["value"]), one.get("error"))
        for place, one in numbers.items()
    ]
    if len(found) < 2:
        return None
    until = [one for one in loop.until if one.metric == metric]
    better = next((one.better for one in until if one.better), better_direction(state, metric))
    best = accumulate((one.y for one in found), max if better == "higher" else min)
    return Plot(
        "round",
        metric,
        {"": found},
        [PlotPoint(p.x, y) for p, y in zip(found, best, strict=True)] if better else [],
        {f"{u.test} {u.limit:g}": float(u.limit) for u in until if u.test in ("below", "above")},
        _unit_of(numbers.values()),
    )


class PlotFrame(NamedTuple):
    """The ranges of both axes of a plot. A limit far from all points may lie outside."""

    left: float
    right: float
    low: float
    high: float

    def relative_position(self, point: PlotPoint) -> tuple[float, float]:
        """Return the position of a point in the plot, from the left and from the bottom.

        Both numbers are between 0 and 1.
        """
        return _compute_share(point.x, self.left, self.right), _compute_share(
            point.y, self.low, self.high
        )

    def out_of_range_arrow(self, y: float) -> str:
        """Return an arrow towards a value outside the vertical range, or ""."""
        return "↓ " if _clamp_value(y) < self.low else "↑ " if _clamp_value(y) > self.high else ""


def _compute_share(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


def build_frame(plot: Plot) -> PlotFrame:
    """Return the ranges of both axes, which include error bars and limits near the points."""
    every = [one for points in plot.lines.values() for one in points]
    reach = [one.error if one.error and isfinite(one.error) else 0.0 for one in every]
    ends = zip(every, reach, strict=True)
    ys = [y for one, error in ends for y in (one.y - error, one.y + error)]
    low, high = _widen_range(min(ys), max(ys))
    far = _REACH * (high - low)
    ys += [one for one in plot.limits.values() if low - far <= one <= high + far]
    xs = [one.x for one in every]
    return PlotFrame(*_widen_range(min(xs), max(xs)), *_widen_range(min(ys), max(ys)))


def _widen_range(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis, with a finite and nonzero distance between them.

    Very large values are clamped, so their points are drawn at the edge of the plot.
    """
    low, high = _clamp_value(low), _clamp_value(high)
    if high - low > _NEAR:
        return low, high
    margin = abs(low) / 2 if abs(low) > _NEAR else 1.0
    return low - margin, high + margin


def choose_ticks(low: float, high: float, *, counted: bool = False) -> list[float]:
    """Return two to six round numbers between the ends of an axis.

    With ``counted``, return only integers.
    """
    step = 10.0 ** floor(log10((high - low) / 2))
    for times in (5, 2, 1) if counted else (5, 2.5, 2, 1):
        if (high - low) / (step * times) >= 2:
            step *= times
            break
    return [n * step for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def compute_step_corners(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """Return the corners of a step line, which keeps its value until the next point."""
    corners = (corner for a, b in pairwise(points) for corner in (a, a._replace(x=b.x)))
    return [*corners, points[-1]]


#: Bit of each dot in a Braille character, by column and then by row from the top.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def draw_braille_plot(plot: Plot, width: int = 60, height: int = 12) -> list[str]:
    """Return the plot as lines of Braille characters for a terminal.

    The drawing area has ``width`` by ``height`` characters.
    """
    frame = build_frame(plot)
    canvas = [[0] * width for _ in range(height)]
    near = {name: y for name, y in plot.limits.items() if not frame.out_of_range_arrow(y)}
    limits = ([PlotPoint(x, y) for x in frame[:2]] for y in near.values())
    best = [compute_step_corners(plot.best)] if plot.best else []
    for points in (*plot.lines.values(), *best, *limits):
        for x, y in _compute_dots(frame, points, width * 2 - 1, height * 4 - 1):
            canvas[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
    labels = [f"{frame.high:.5g}", *[""] * (height - 2), f"{frame.low:.5g}"]
    wide = max(map(len, labels))
    lines = [
        f"{label:>{wide}} │{''.join(chr(0x2800 + one) if one else ' ' for one in row)}".rstrip()
        for label, row in zip(labels, canvas, strict=True)
    ]
    left, right = f"{frame.left:.5g}", f"{frame.right:.5g}"
    ends = f"{left}{plot.over:^{max(width - len(left) - len(right), 0)}}{right}"
    lines_of = [
        *(name or plot.of for name in plot.lines),
        *(["best so far"] if plot.best else []),
        *near,
    ]
    named = [f"{' ' * wide}  lines: {', '.join(lines_of)}"] if len(lines_of) > 1 else []
    far = [
        f"{frame.out_of_range_arrow(y)}{name}"
        for name, y in plot.limits.items()
        if name not in near
    ]
    named += [f"{' ' * wide}  off the scale: {', '.join(far)}"] if far else []
    return [plot.title, *lines, f"{' ' * wide} └{'─' * width}", f"{' ' * wide}  {ends}", *named]


def _compute_dots(
    frame: PlotFrame, points: Sequence[PlotPoint], right: int, bottom: int
) -> Iterator[tuple[int, int]]:
    """Yield the coordinates of all dots on the straight lines between consecutive points."""
    places = [
        (round(across * right), round((1 - up) * bottom))
        for across, up in map(frame.relative_position, points)
    ]
    yield from places
    for (x, y), (to_x, to_y) in pairwise(places):
        steps = max(abs(to_x - x), abs(to_y - y))
        for step in range(1, steps):
            yield round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps)
