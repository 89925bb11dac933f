"""The viscosity of one run, from what LAMMPS wrote of the autocorrelation of its stress.

Usage: green_kubo.py STRESS STATE LAGS STEP INTEGRAL > RESULT

STRESS has the autocorrelation of five independent elements of the traceless stress tensor; only
its last LAGS rows count, STEP apart in time. eta(t) = V / T times the integral of their mean up to
t, by trapezia, goes to INTEGRAL (CSV); its last value is the viscosity. Prints that, and its value
at each eighth of the time, as JSON in units of Lennard and Jones.
"""

import csv
import json
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

ELEMENTS, PARTS = 5, 8


def read(text: str, lags: int) -> list[float]:
    """Return the autocorrelation at each lag, as the mean of all elements."""
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    rows = [[float(value) for value in line[-ELEMENTS:]] for line in lines[-lags:]]
    if len(rows) != lags or any(len(row) != ELEMENTS for row in rows):
        sys.exit(f"expected {lags} lags of {ELEMENTS} elements, found {len(rows)}")
    return [fmean(row) for row in rows]


def integral(kept: list[float], step: float, factor: float) -> list[float]:
    """Return the running integral of an autocorrelation, by trapezia, times a factor."""
    pieces = (factor * step * (a + b) / 2 for a, b in pairwise(kept))
    return list(accumulate(pieces, initial=0.0))


def main() -> None:
    """Write the running integral, and print what it came to."""
    state = json.loads(Path(sys.argv[2]).read_text())
    step = float(sys.argv[4])
    kept = read(Path(sys.argv[1]).read_text(), int(sys.argv[3]))
    running = integral(kept, step, state["volume"] / state["temperature"])
    with Path(sys.argv[5]).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["t", "eta"])
        rows.writerows([f"{n * step:.4f}", f"{eta:.6f}"] for n, eta in enumerate(running))
    parts = [running[n * (len(running) - 1) // PARTS] for n in range(PARTS + 1)]
    print(json.dumps({"eta": parts[-1], "parts": parts, "temperature": state["temperature"]}))


if __name__ == "__main__":
    main()
