"""The radius of gyration of a run, how far it is from the one that is sought, and the error.

Usage: radius.py SAMPLES BLOCKS TARGET OUT

R_g is the root of the mean square, in sigma. Samples that follow each other are correlated, so the
error is that of the means of BLOCKS blocks, each much longer than the correlation time
(Flyvbjerg and Petersen, J. Chem. Phys. 91, 461, 1989).
"""

import json
import math
import sys
from pathlib import Path
from statistics import fmean, stdev


def squares(text: str) -> list[float]:
    """Return the squared radii of a table of LAMMPS (columns step rg), without the first."""
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [float(rg) ** 2 for _, rg in rows[1:]]


def block_means(values: list[float], blocks: int) -> list[float]:
    """Return the means of blocks of equal length; the first values that fill none are left out."""
    length = len(values) // blocks
    used = values[len(values) - length * blocks :]
    return [fmean(used[n : n + length]) for n in range(0, len(used), length)]


def radius(means: list[float]) -> tuple[float, float]:
    """Return R_g and its standard error from the block means of its square."""
    rg = math.sqrt(fmean(means))
    # The error of a root: d(sqrt(x)) = dx / (2 sqrt(x)).
    return rg, stdev(means) / math.sqrt(len(means)) / (2 * rg)


if __name__ == "__main__":
    blocks, target = int(sys.argv[2]), float(sys.argv[3])
    means = block_means(squares(Path(sys.argv[1]).read_text()), blocks)
    rg, error = radius(means)
    found = {"rg": rg, "error": error, "deviation": abs(rg - target), "block_means": means}
    Path(sys.argv[4]).write_text(json.dumps(found, indent=2) + "\n")
