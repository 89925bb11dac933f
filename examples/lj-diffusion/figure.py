"""Diffusion over temperature by two ways, with the law of Arrhenius, and a figure of it.

Usage: figure.py EINSTEIN GREEN_KUBO RESULT FIGURE

The first two are the tables of sweeps over the same temperatures. D = D0 exp(-E / T) is laid
through the logarithms of both; they differ by the root mean square of their relative differences.
"""

import csv
import json
import math
import sys
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

LEFT, RIGHT, TOP, BOTTOM = 70, 530, 40, 310
COLOURS = {"Einstein": "#0072b2", "Green and Kubo": "#d55e00"}


class Point(NamedTuple):
    """The diffusion coefficient at a temperature, and its standard error."""

    temperature: float
    value: float
    error: float


Curves = dict[str, list[Point]]


def read(path: Path) -> list[Point]:
    """Return the points of a table whose task is done."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    found = [Point(float(r["temperature"]), float(r["D"]), float(r["error"])) for r in rows]
    return sorted(found)


def arrhenius(points: list[Point]) -> tuple[float, float]:
    """Return D0 and E of the line through ln D over 1/T, by least squares."""
    pairs = [(1 / p.temperature, math.log(p.value)) for p in points]
    middle, mean = fmean(x for x, _ in pairs), fmean(y for _, y in pairs)
    slope = sum((x - middle) * (y - mean) for x, y in pairs)
    slope /= sum((x - middle) ** 2 for x, _ in pairs)
    return math.exp(mean - slope * middle), -slope


def compared(curves: Curves) -> dict[str, float]:
    """Return by how much the two ways differ, and by how much their errors let them."""
    pairs = list(zip(*curves.values(), strict=True))
    means = [(a.value + b.value) / 2 for a, b in pairs]
    differ = [((a.value - b.value) / m) ** 2 for (a, b), m in zip(pairs, means, strict=True)]
    let = [(a.error**2 + b.error**2) / m**2 for (a, b), m in zip(pairs, means, strict=True)]
    return {"difference": math.sqrt(fmean(differ)), "expected": math.sqrt(fmean(let))}


class Figure:
    """A drawing in SVG of ln D over 1/T."""

    def __init__(self, curves: Curves) -> None:
        points = [point for curve in curves.values() for point in curve]
        self.hot, self.cold = (f(1 / p.temperature for p in points) for f in (min, max))
        self.low, self.high = (f(p.value for p in points) for f in (min, max))
        self.lines: list[str] = []

    def place(self, x: float, value: float) -> tuple[float, float]:
        """Return where 1/T and D lie on the sheet."""
        across = LEFT + 8 + (RIGHT - LEFT - 16) * (x - self.hot) / (self.cold - self.hot)
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return round(across, 1), round(BOTTOM - 8 - (BOTTOM - TOP - 16) * part, 1)

    def write(self, x: float, y: float, text: str, rest: str = "") -> None:
        """Put a text at a place of the sheet."""
        self.lines.append(f'<text x="{x}" y="{y}" {rest}>{text}</text>')

    def draw_axes(self) -> None:
        """Draw both axes with their ends."""
        self.lines.append(f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>')
        for x in (self.hot, (self.hot + self.cold) / 2, self.cold):
            self.write(self.place(x, self.low)[0], BOTTOM + 20, f"{x:.2f}", 'text-anchor="middle"')
        for value in (self.low, math.sqrt(self.low * self.high), self.high):
            y = self.place(self.hot, value)[1] + 4
            self.write(LEFT - 8, y, f"{value:.3f}", 'text-anchor="end"')
        self.write((LEFT + RIGHT) / 2, BOTTOM + 40, "ε / T", 'text-anchor="middle"')
        self.write(20, TOP - 10, "D / (σ²/τ)")

    def draw_law(self, factor: float, energy: float) -> None:
        """Draw the line of Arrhenius from end to end."""
        ends = [self.place(x, factor * math.exp(-energy * x)) for x in (self.hot, self.cold)]
        path = " ".join(f"{x},{y}" for x, y in ends)
        self.lines.append(f'<polyline points="{path}" stroke="#888" stroke-dasharray="4 3"/>')
        self.write(330, TOP + 56, f"D = {factor:.2f} exp(-{energy:.2f} ε/T)", 'fill="#555"')

    def draw_points(self, curve: list[Point], colour: str) -> None:
        """Draw points with one standard error to each side."""
        for temperature, value, error in curve:
            x, y = self.place(1 / temperature, value)
            low, high = (self.place(0, v)[1] for v in (value - error, value + error))
            self.lines.append(f'<path d="M{x} {low}V{high}" stroke="{colour}"/>')
            self.lines.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')

    def text(self) -> str:
        """Return the drawing."""
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 360" '
            'font-family="sans-serif" font-size="13">'
        )
        title = "<title>Diffusion of a Lennard-Jones liquid over temperature</title>"
        sheet = '<rect width="560" height="360" fill="white"/>'
        return "\n".join([head, title, sheet, *self.lines, "</svg>"]) + "\n"


def drawn(curves: Curves, factor: float, energy: float) -> str:
    """Return a figure of both ways and of the law."""
    figure = Figure(curves)
    figure.draw_axes()
    figure.draw_law(factor, energy)
    for number, (name, curve) in enumerate(curves.items()):
        figure.draw_points(curve, COLOURS[name])
        figure.write(330, TOP + 16 + 20 * number, name, f'fill="{COLOURS[name]}"')
    return figure.text()


def main() -> None:
    """Write what was found, and the figure."""
    curves = {name: read(Path(path)) for name, path in zip(COLOURS, sys.argv[1:3], strict=True)}
    factor, energy = arrhenius([point for curve in curves.values() for point in curve])
    found = {"energy": energy, "factor": factor, **compared(curves)}
    Path(sys.argv[3]).write_text(json.dumps(found, indent=2) + "\n")
    Path(sys.argv[4]).write_text(drawn(curves, factor, energy))
    print(f"D = {factor:.2f} exp(-{energy:.2f} / T)")


if __name__ == "__main__":
    main()
