"""Find the temperature at which the helicity modulus crosses 2T/pi, and print it as JSON.

Usage: python3 cross.py TASKS, or python3 cross.py --check RESULT LARGEST_ERROR.
"""

import csv
import json
import sys
from itertools import pairwise
from math import hypot, pi
from pathlib import Path


def find_crossing(points: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the first crossing by linear interpolation, and its standard error."""
    for (t, y, error), (t_next, y_next, error_next) in pairwise(points):
        gap, gap_next = y - 2 * t / pi, y_next - 2 * t_next / pi
        if gap >= 0 > gap_next:
            share = gap / (gap - gap_next)
            slope = (gap_next - gap) / (t_next - t)
            return t + share * (t_next - t), hypot((1 - share) * error, share * error_next) / -slope
    sys.exit("the helicity modulus does not cross 2T/pi between the temperatures")


def main(path: str) -> None:
    """Print the crossing of the finished tasks."""
    with Path(path).open() as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    numbers = [
        (float(row["T"]), float(row["helicity"]), float(row["helicity_error"])) for row in rows
    ]
    crossing, error = find_crossing(sorted(numbers))
    print(json.dumps({"tc": crossing, "error": error}))


def check(path: str, largest: float) -> None:
    """Exit with an error if the standard error of the crossing is too large."""
    with Path(path).open() as file:
        error = json.load(file)["error"]
    if error > largest:
        sys.exit(f"the error of the crossing is {error:.4f}, but at most {largest} is allowed")


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(sys.argv[2], float(sys.argv[3]))
    else:
        main(sys.argv[1])
