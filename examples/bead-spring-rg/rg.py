"""The radius of gyration of a run, with the standard error of its block average.

Usage: rg.py SAMPLES BLOCKS OUT

R_g is the root of the mean square, in sigma. Samples that follow each other are correlated, so the
error is that of the means of BLOCKS blocks, each much longer than the correlation time
(Flyvbjerg and Petersen, J. Chem. Phys. 91, 461, 1989).
"""

import json
import math
import sys
from pathlib import Path
from statistics import fmean, stdev


def samples(text: str) -> list[float]:
    """Return the radii of a table of LAMMPS (columns step rg), the first, of step 0, left out."""
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [float(rg) for _, rg in rows[1:]]


def block_means(values: list[float], blocks: int) -> list[float]:
    """Return the means of blocks of equal length; what is left over is the beginning."""
    length = len(values) // blocks
    used = values[len(values) - length * blocks :]
    return [fmean(used[n : n + length]) for n in range(0, len(used), length)]


def standard_error(means: list[float]) -> float:
    """Return the standard error of the mean of independent values."""
    return stdev(means) / math.sqrt(len(means))


def correlation(values: list[float], lag: int) -> float:
    """Return the correlation of values that lie ``lag`` samples apart."""
    mean = fmean(values)
    off = [value - mean for value in values]
    pairs = zip(off, off[lag:], strict=False)
    return fmean(a * b for a, b in pairs) / fmean(a * a for a in off)


def main() -> None:
    """Write what was found."""
    values = samples(Path(sys.argv[1]).read_text())
    blocks = int(sys.argv[2])
    squares = [value * value for value in values]
    rg = math.sqrt(fmean(squares))
    # The error of a root: d(sqrt(x)) = dx / (2 sqrt(x)).
    error = standard_error(block_means(squares, blocks)) / (2 * rg)
    curve = {
        str(n): standard_error(block_means(squares, n)) / (2 * rg) for n in (10, 20, 50, 100, 200)
    }
    found = {
        "rg": rg,
        "standard_error": error,
        "mean_rg": fmean(values),
        "samples": len(values),
        "blocks": blocks,
        "correlation_over_a_block": correlation(values, len(values) // blocks),
        "standard_error_by_blocks": curve,
    }
    Path(sys.argv[3]).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
