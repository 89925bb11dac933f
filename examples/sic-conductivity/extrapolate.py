"""The conductivity of a box without an end, and the runs that come next.

Usage: extrapolate.py TABLE EACH STEP LONGEST SEEDS

TABLE has a row for each run so far. 1/kappa is a line over 1/L (Schelling, Phillpot and
Keblinski, Phys. Rev. B 65, 144306, 2002), and its value at 1/L = 0 is that of the crystal. Every
run has the same relative error, and the runs tell it by their scatter about the line. Writes
conductivity.json and next.csv. The next EACH runs are those that lower the error most for their
cost: a seed more of a length so far, or a box that is longer by STEP cells, up to LONGEST, and up
to SEEDS of each length. The same table gives the same answer.
"""

import csv
import json
import math
import sys
from pathlib import Path
from statistics import fmean
from typing import NamedTuple


class Run(NamedTuple):
    """A run: the length of its box in cells and in nm, its seed, and 1/kappa in m K/W."""

    cells: int
    length: float
    seed: int
    resistivity: float


class Line(NamedTuple):
    """A line of 1/kappa over 1/L: where it begins, its slope, and the scatter about it."""

    start: float
    slope: float
    scatter: float


class Sums(NamedTuple):
    """What a fit knows of its points: sums of weights, and of those times 1/L and its square."""

    w: float
    wx: float
    wxx: float

    def variance(self) -> float:
        """Return that of the start of the line, for a scatter of 1."""
        return self.wxx / (self.w * self.wxx - self.wx**2)

    def joined(self, x: float, weight: float) -> "Sums":
        """Return the sums with one point more."""
        return Sums(self.w + weight, self.wx + weight * x, self.wxx + weight * x * x)


def read(path: Path) -> list[Run]:
    """Return the runs that are done, in the order of the table."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    return [
        Run(int(r["cells"]), float(r["length"]), int(r["seed"]), 1 / float(r["kappa"]))
        for r in rows
    ]


def means(runs: list[Run]) -> dict[int, float]:
    """Return the mean of 1/kappa of each length."""
    lengths = sorted({one.cells for one in runs})
    return {n: fmean(one.resistivity for one in runs if one.cells == n) for n in lengths}


def sums(runs: list[Run]) -> Sums:
    """Return the sums over runs, each with the weight of its length."""
    level, found = means(runs), Sums(0, 0, 0)
    for one in runs:
        found = found.joined(1 / one.length, level[one.cells] ** -2)
    return found


def fitted(runs: list[Run]) -> Line:
    """Return the line of least squares; the scatter is relative to 1/kappa."""
    level, all_ = means(runs), sums(runs)
    points = [(1 / one.length, one.resistivity, level[one.cells] ** -2) for one in runs]
    wy = sum(w * y for _, y, w in points)
    wxy = sum(w * x * y for x, y, w in points)
    below = all_.w * all_.wxx - all_.wx**2
    start = (all_.wxx * wy - all_.wx * wxy) / below
    slope = (all_.w * wxy - all_.wx * wy) / below
    squares = sum(w * (y - start - slope * x) ** 2 for x, y, w in points)
    return Line(start, slope, math.sqrt(squares / (len(points) - 2)))


def coming(
    runs: list[Run], each: int, step: int, longest: int, seeds: int
) -> list[tuple[int, int]]:
    """Return the next runs as cells and seeds: in turn, the one that helps most for its cost."""
    line, known, level = fitted(runs), sums(runs), means(runs)
    cell = runs[0].length / runs[0].cells
    used = {n: max(one.seed for one in runs if one.cells == n) for n in level}
    further = max(level) + step
    if further <= longest:
        used[further] = 0
        level[further] = max(line.start + line.slope / (cell * further), level[further - step] / 2)

    def joined(cells: int) -> Sums:
        return known.joined(1 / (cell * cells), level[cells] ** -2)

    found = []
    for _ in range(each):
        free = [n for n in used if used[n] < seeds]
        if not free:
            break
        now = known.variance()
        best = max(free, key=lambda n: (now - joined(n).variance()) / n)
        used[best] += 1
        found.append((best, used[best]))
        known = joined(best)
    return found


def main() -> None:
    """Write what all runs come to, and which come next."""
    each, step, longest, seeds = map(int, sys.argv[2:6])
    runs = read(Path(sys.argv[1]))
    line, level = fitted(runs), means(runs)
    deviation = line.scatter * math.sqrt(sums(runs).variance())
    value, error = 1 / line.start, deviation / line.start**2
    far = max(runs, key=lambda one: one.cells)
    found = {
        "conductivity": value,
        "error": error,
        "runs": len(runs),
        "line": {"start": line.start, "error": deviation, "slope": line.slope},
        "longest": {"length": far.length, "kappa": 1 / level[far.cells]},
    }
    Path("conductivity.json").write_text(json.dumps(found, indent=2) + "\n")
    points = coming(runs, each, step, longest, seeds)
    lines = ["cells,seed", *(f"{cells},{seed}" for cells, seed in points)]
    Path("next.csv").write_text("\n".join(lines) + "\n")
    print(f"conductivity {value:.2f} +- {error:.2f} from {len(runs)} runs; next: {points}")


if __name__ == "__main__":
    main()
