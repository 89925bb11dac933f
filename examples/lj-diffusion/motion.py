"""The diffusion coefficient at one temperature, from what LAMMPS wrote of the motion of its atoms.

Usage: motion.py einstein|green-kubo MOTION BEGIN

By Einstein, D is a sixth of the slope of the mean square displacement, from the time BEGIN on, when
atoms have met their neighbours; by Green and Kubo, it is a third of the integral of the
autocorrelation of their velocities. Each segment of the run is one estimate, the error that of the
mean of all. Prints JSON, in units of Lennard and Jones.
"""

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

Row = tuple[float, float, float, float]
"""Time, mean square displacement, autocorrelation of velocities, temperature."""


def read(text: str) -> list[list[Row]]:
    """Return the rows of each segment (columns segment, time, msd, vacf, temperature)."""
    segments: dict[str, list[Row]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        number, *values = line.split()
        time, msd, vacf, temperature = map(float, values)
        segments.setdefault(number, []).append((time, msd, vacf, temperature))
    return list(segments.values())


def einstein(rows: list[Row], begin: float) -> float:
    """Return a sixth of the slope of the line through the displacements, by least squares."""
    points = [(time, msd) for time, msd, _, _ in rows if time >= begin]
    middle, mean = fmean(t for t, _ in points), fmean(y for _, y in points)
    slope = sum((t - middle) * (y - mean) for t, y in points)
    return slope / sum((t - middle) ** 2 for t, _ in points) / 6


def green_kubo(rows: list[Row]) -> float:
    """Return a third of the integral of the autocorrelation, by trapezia."""
    return sum((b[0] - a[0]) * (a[2] + b[2]) / 2 for a, b in pairwise(rows)) / 3


def main() -> None:
    """Print what was found."""
    segments = read(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "einstein":
        found = [einstein(rows, float(sys.argv[3])) for rows in segments]
    else:
        found = [green_kubo(rows) for rows in segments]
    temperature = fmean(row[3] for rows in segments for row in rows)
    error = stdev(found) / math.sqrt(len(found))
    print(json.dumps({"D": fmean(found), "error": error, "temperature": temperature}))


if __name__ == "__main__":
    main()
