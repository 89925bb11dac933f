"""The figure of 1/kappa over 1/L: each run, the mean of each length with its error, the line.

Usage: resistivity.py TABLE RESULT FIGURE; RESULT is what extrapolate.py wrote of that table.
"""

import csv
import json
import math
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

LEFT, RIGHT, TOP, BOTTOM = 70, 530, 40, 310
FONT = 'font-family="sans-serif" font-size="13"'
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#444"

#: Length of a box in nm → 1/kappa of each of its runs.
Groups = dict[float, list[float]]


class Sheet:
    """A sheet whose axes go from 0 to an end in 1/L, and to a height in 1/kappa."""

    def __init__(self, end: float, high: float) -> None:
        """Begin with the axes."""
        self.end, self.high = end, high
        self.lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 360" {FONT}>',
            "<title>Thermal resistivity over the inverse length of the box</title>",
            '<rect width="560" height="360" fill="white"/>',
            f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="{GREY}"/>',
        ]

    def x(self, inverse: float) -> float:
        """Return where 1/L lies."""
        return LEFT + (RIGHT - LEFT) * inverse / self.end

    def y(self, resistivity: float) -> float:
        """Return where 1/kappa lies."""
        return BOTTOM - (BOTTOM - TOP) * resistivity / self.high

    def line(self, points: list[tuple[float, float]], style: str) -> None:
        """Draw a line through points in 1/L and 1/kappa."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.lines.append(f'<polyline points="{path}" fill="none" {style}/>')

    def dot(self, x: float, y: float, radius: float, style: str) -> None:
        """Draw a point."""
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}"'
        self.lines.append(f'<circle {place} r="{radius:g}" {style}/>')

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        """Write at a place of the sheet itself."""
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>')


def read(path: Path) -> Groups:
    """Return the runs that are done, by the length of their box."""
    groups: Groups = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["state"] == "done":
                groups.setdefault(float(row["length"]), []).append(1 / float(row["kappa"]))
    return groups


def draw_group(sheet: Sheet, length: float, runs: list[float]) -> None:
    """Draw the runs of a length, their mean, and its standard error."""
    inverse, mean = 1 / length, fmean(runs)
    for one in runs:
        sheet.dot(inverse, one, 2, f'fill="{BLUE}" fill-opacity="0.35"')
    sheet.dot(inverse, mean, 4, f'fill="{BLUE}"')
    if len(runs) > 1:
        error = stdev(runs) / math.sqrt(len(runs))
        ends = [(inverse, mean - error), (inverse, mean + error)]
        sheet.line(ends, f'stroke="{BLUE}" stroke-width="2"')
    sheet.text(sheet.x(inverse), BOTTOM + 18, f"1/{length:.1f}", 'text-anchor="middle"')


def drawn(groups: Groups, found: dict[str, Any]) -> str:
    """Return the figure, with what was found of the line, and its error at 1/L = 0."""
    start, error, slope = (found["line"][name] for name in ("start", "error", "slope"))
    end = 1.1 / min(groups)
    sheet = Sheet(end, 1.05 * max(start + error, *(max(runs) for runs in groups.values())))
    sheet.line([(0, start), (end, start + slope * end)], f'stroke="{ORANGE}"')
    whisker = [(0.0, max(start - error, 0.0)), (0.0, start + error)]
    sheet.line(whisker, f'stroke="{ORANGE}" stroke-width="4"')
    for length, runs in groups.items():
        draw_group(sheet, length, runs)
    right = 'text-anchor="end"'
    told = f"κ = {found['conductivity']:.1f} ± {found['error']:.1f} W/(m K)"
    sheet.text(LEFT - 8, BOTTOM + 4, "0", right)
    sheet.text(LEFT - 8, sheet.y(start) + 4, f"{start:.3f}", f'{right} fill="{ORANGE}"')
    sheet.text((LEFT + RIGHT) / 2, BOTTOM + 40, "1/L / nm⁻¹", 'text-anchor="middle"')
    sheet.text(20, TOP - 20, "1/κ / (m K/W)")
    sheet.text(RIGHT, BOTTOM - 20, f"{found['runs']} runs: {told}", f'{right} fill="{ORANGE}"')
    return "\n".join([*sheet.lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    result = json.loads(Path(sys.argv[2]).read_text())
    Path(sys.argv[3]).write_text(drawn(read(Path(sys.argv[1])), result))
