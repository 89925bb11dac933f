"""A figure of a search: how far R_g of each sequence is from the one that is sought.

Usage: convergence.py TABLE FIGURE

TABLE is that of the sweep, whose rows are in the order of the rounds.
"""

import csv
import math
import sys
from pathlib import Path

LEFT, RIGHT, TOP, BOTTOM = 70, 600, 40, 310
#: Deviations smaller than this, in sigma, are drawn here: an axis of decades has no zero.
LEAST = 1e-4
DOT, LINE = "#0072b2", "#d55e00"

Point = tuple[int, float]
"""The round of a sequence, and its deviation."""


class Figure:
    """A drawing in SVG of deviations, in decades, over the number of simulations."""

    def __init__(self, deviations: list[float]) -> None:
        self.count = len(deviations)
        self.high = math.ceil(math.log10(max(deviations)))
        self.low = min(math.floor(math.log10(min(deviations))), self.high - 1)
        self.lines: list[str] = []

    def place(self, number: float, deviation: float) -> tuple[float, float]:
        """Return where a simulation, counted from 1, lies on the sheet."""
        part = (math.log10(deviation) - self.low) / (self.high - self.low)
        across = LEFT + (RIGHT - LEFT) * number / (self.count + 1)
        return round(across, 1), round(BOTTOM - (BOTTOM - TOP) * part, 1)

    def write(self, x: float, y: float, text: str, rest: str = "") -> None:
        """Put a text at a place of the sheet."""
        self.lines.append(f'<text x="{x}" y="{y}" {rest}>{text}</text>')

    def draw_axes(self) -> None:
        """Draw both axes, and a line for each decade."""
        self.lines.append(f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>')
        for decade in range(self.low, self.high + 1):
            y = self.place(0, 10.0**decade)[1]
            self.lines.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#ddd"/>')
            self.write(LEFT - 8, y + 4, f"{10.0**decade:g}", 'text-anchor="end"')
        self.write(
            (LEFT + RIGHT) / 2, BOTTOM + 40, "simulations, by rounds", 'text-anchor="middle"'
        )
        self.write(20, TOP - 14, "|R_g - target| / σ")

    def draw_rounds(self, rounds: list[int]) -> None:
        """Draw where each round begins, with its number."""
        for number, here in enumerate(rounds, 1):
            if number == 1 or here != rounds[number - 2]:
                x = self.place(number - 0.5, 1)[0]
                self.lines.append(
                    f'<path d="M{x} {TOP}V{BOTTOM}" stroke="#bbb" stroke-dasharray="3 3"/>'
                )
                self.write(x + 4, BOTTOM + 18, str(here), 'fill="#555"')

    def draw_points(self, deviations: list[float]) -> None:
        """Draw each deviation, and the best one so far as a line of steps."""
        path = ""
        for number, deviation in enumerate(deviations, 1):
            x, y = self.place(number, deviation)
            self.lines.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{DOT}"/>')
            step = self.place(number, min(deviations[:number]))[1]
            path += f"H{x}V{step}" if path else f"M{x} {step}"
        self.lines.append(f'<path d="{path}H{RIGHT}" fill="none" stroke="{LINE}"/>')

    def text(self) -> str:
        """Return the drawing."""
        head = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" '
            'font-family="sans-serif" font-size="13">'
        )
        title = "<title>Search for a copolymer of a given radius of gyration</title>"
        sheet = '<rect width="640" height="360" fill="white"/>'
        return "\n".join([head, title, sheet, *self.lines, "</svg>"]) + "\n"


def read(path: Path) -> list[Point]:
    """Return what the tasks came to that are done."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    return [(int(row["round"]), float(row["deviation"])) for row in rows]


def drawn(points: list[Point]) -> str:
    """Return a figure of all simulations of a search, in their order."""
    deviations = [max(deviation, LEAST) for _, deviation in points]
    figure = Figure(deviations)
    figure.draw_axes()
    figure.draw_rounds([round_ for round_, _ in points])
    figure.draw_points(deviations)
    figure.write(RIGHT, TOP - 14, "each, and the best so far", f'text-anchor="end" fill="{LINE}"')
    return figure.text()


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(drawn(read(Path(sys.argv[1]))))
