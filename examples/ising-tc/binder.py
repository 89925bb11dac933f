"""The critical temperature from the crossings of Binder's cumulants, and a figure of them.

Usage: binder.py TABLE RESULT FIGURE

The cumulant U = 1 - <m^4> / (3 <m^2>^2) of two sizes is the same at the critical temperature, but
for corrections that vanish quickly (Binder, Z. Phys. B 43, 119, 1981). A parabola is laid through
U(T) of each size; where those of two sizes cross is one estimate. The error is a jackknife over the
seeds.
"""

import csv
import json
import math
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from statistics import fmean

EXACT = 2 / math.log(1 + math.sqrt(2))
#: Sizes whose curves cross at too small an angle tell little: one is at least so much larger.
RATIO = 2
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

Points = dict[float, dict[str, tuple[float, float]]]
"""Temperature → seed → the second and the fourth moment."""
Curve = list[tuple[float, float]]


def read(path: Path) -> dict[int, Points]:
    """Return the points of each size whose task is done."""
    table: dict[int, Points] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["state"] == "done":
                of_point = table.setdefault(int(row["L"]), {}).setdefault(float(row["T"]), {})
                of_point[row["seed"]] = (float(row["m2"]), float(row["m4"]))
    return table


def cumulants(points: Points, without: str | None = None) -> Curve:
    """Return temperatures and cumulants of one size; one seed may be left out."""
    found = []
    for temperature, seeds in sorted(points.items()):
        kept = [moments for seed, moments in seeds.items() if seed != without]
        second, fourth = fmean(m2 for m2, _ in kept), fmean(m4 for _, m4 in kept)
        found.append((temperature, 1 - fourth / (3 * second**2)))
    return found


def parabola(points: Curve) -> Callable[[float], float]:
    """Return the parabola with the least squares."""
    middle = fmean(x for x, _ in points)
    powers = [sum((x - middle) ** n for x, _ in points) for n in range(5)]
    rows = [[*powers[n : n + 3], sum(y * (x - middle) ** n for x, y in points)] for n in range(3)]
    for at in range(3):
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for n in {0, 1, 2} - {at}:
            rows[n] = [a - rows[n][at] * b for a, b in zip(rows[n], rows[at], strict=True)]
    a, b, c = (row[3] for row in rows)
    return lambda x: a + b * (x - middle) + c * (x - middle) ** 2


def crossing(difference: Callable[[float], float], left: float, right: float) -> float | None:
    """Return where a function changes its sign, by halving; None if it does not."""
    rises = difference(left) < 0
    if rises == (difference(right) < 0):
        return None
    while right - left > 1e-9:
        middle = (left + right) / 2
        left, right = (middle, right) if (difference(middle) < 0) == rises else (left, middle)
    return left


def crossings(table: dict[int, Points], without: str | None = None) -> dict[str, float]:
    """Return where the curves of two sizes cross, for each pair that is far enough apart."""
    curves = {size: parabola(cumulants(points, without)) for size, points in table.items()}
    ends = [temperature for points in table.values() for temperature in points]
    found = {}
    for small, large in combinations(sorted(curves), 2):
        one, other = curves[small], curves[large]
        at = crossing(lambda x, f=one, g=other: f(x) - g(x), min(ends), max(ends))  # type: ignore[misc]
        if at is not None and large >= RATIO * small:
            found[f"{small}-{large}"] = at
    if not found:
        sys.exit("no two curves cross: take more seeds, more flips, or temperatures around T_c")
    return found


def estimate(table: dict[int, Points]) -> dict[str, object]:
    """Return the mean of the crossings and its standard error."""
    seeds = {seed for size in table.values() for one in size.values() for seed in one}
    found = crossings(table)
    means = [fmean(crossings(table, seed).values()) for seed in sorted(seeds)]
    variance = sum((one - fmean(means)) ** 2 for one in means) * (len(means) - 1) / len(means)
    error = math.sqrt(variance)
    return {"tc": fmean(found.values()), "error": error, "exact": EXACT, "crossings": found}


class Figure:
    """A drawing in SVG whose axes hold all points of some curves."""

    def __init__(self, curves: dict[int, Curve]) -> None:
        every = [point for curve in curves.values() for point in curve]
        self.left, self.right = min(every)[0], max(every)[0]
        self.low, self.high = min(y for _, y in every), max(y for _, y in every)
        self.lines: list[str] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies on the sheet."""
        across = 70 + 460 * (x - self.left) / (self.right - self.left)
        return round(across, 1), round(310 - 270 * (y - self.low) / (self.high - self.low), 1)

    def write(self, x: float, y: float, text: str, rest: str = "") -> None:
        """Put a text at a place of the sheet."""
        self.lines.append(f'<text x="{x}" y="{y}" {rest}>{text}</text>')

    def draw_axes(self) -> None:
        """Draw both axes with their ends."""
        self.lines.append('<path d="M70 40V310H530" fill="none" stroke="#444"/>')
        for x in (self.left, (self.left + self.right) / 2, self.right):
            self.write(self.place(x, self.low)[0], 330, f"{x:.3f}", 'text-anchor="middle"')
        for y in (self.low, self.high):
            self.write(62, self.place(self.left, y)[1] + 4, f"{y:.3f}", 'text-anchor="end"')
        self.write(300, 350, "T / J", 'text-anchor="middle"')
        self.write(20, 30, "U")

    def draw_temperature(self, x: float, text: str, y: float, dashes: str) -> None:
        """Draw a line from top to bottom at a temperature."""
        at = self.place(x, self.low)[0]
        line = f'<path d="M{at} 40V310" stroke="#888" stroke-dasharray="{dashes}"/>'
        self.lines.append(line)
        self.write(at + 4, y, text, 'fill="#555"')

    def draw_curve(self, size: int, curve: Curve, colour: str) -> None:
        """Draw the cumulants of one size."""
        path = " ".join("{},{}".format(*self.place(*point)) for point in curve)
        line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        self.lines.append(line)
        self.write(540, self.place(*curve[-1])[1] + 4, f"L = {size}", f'fill="{colour}"')

    def text(self) -> str:
        """Return the drawing."""
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" '
            'font-family="sans-serif" font-size="13">'
        )
        title = "<title>Binder cumulants of the Ising model</title>"
        sheet = '<rect width="640" height="360" fill="white"/>'
        return "\n".join([head, title, sheet, *self.lines, "</svg>"]) + "\n"


def drawn(table: dict[int, Points], tc: float) -> str:
    """Return a figure of all curves, of the estimate and of the exact value."""
    curves = {size: cumulants(points) for size, points in sorted(table.items())}
    figure = Figure(curves)
    figure.draw_axes()
    figure.draw_temperature(EXACT, "exact", 52, "2 4")
    figure.draw_temperature(tc, "T_c", 68, "")
    for number, (size, curve) in enumerate(curves.items()):
        figure.draw_curve(size, curve, COLOURS[number % len(COLOURS)])
    return figure.text()


if __name__ == "__main__":
    moments = read(Path(sys.argv[1]))
    outcome = estimate(moments)
    Path(sys.argv[2]).write_text(json.dumps(outcome, indent=2) + "\n")
    Path(sys.argv[3]).write_text(drawn(moments, float(str(outcome["tc"]))))
    print(f"T_c = {outcome['tc']:.4f} +- {outcome['error']:.4f}, exact {EXACT:.6f}")
