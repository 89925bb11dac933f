"""Compute the helicity modulus from samples of xy.py, with a jackknife error, and print JSON.

Usage: python3 helicity.py SAMPLES T L.
"""

import csv
import json
import sys
from math import sqrt
from pathlib import Path

BLOCKS = 20


def helicity(samples: list[tuple[float, float]], temperature: float, spins: int) -> float:
    """Return the helicity modulus: (mean of cosines - mean of squared sines / T) / spins."""
    count = len(samples)
    cosines = sum(one[0] for one in samples) / count
    squares = sum(one[1] ** 2 for one in samples) / count
    return (cosines - squares / temperature) / spins


def main(path: str, temperature: float, size: int) -> None:
    """Print the helicity modulus and its jackknife error."""
    with Path(path).open() as file:
        samples = [(float(row["cosines"]), float(row["sines"])) for row in csv.DictReader(file)]
    length = len(samples) // BLOCKS
    left_out = [
        helicity(samples[: n * length] + samples[(n + 1) * length :], temperature, size**2)
        for n in range(BLOCKS)
    ]
    mean = sum(left_out) / BLOCKS
    error = sqrt((BLOCKS - 1) / BLOCKS * sum((one - mean) ** 2 for one in left_out))
    print(json.dumps({"y": helicity(samples, temperature, size**2), "error": error}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
