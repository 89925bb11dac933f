"""The conductivity of one run, from the profile of its temperature.

Usage: kappa.py PROFILE STATE FLUX > RESULT

PROFILE is what LAMMPS wrote: the temperature of bins of half a cell, the first two of them the hot
slab, the two behind the middle the cold one. The conductivity of a box of this length is FLUX
(GW/m^2) times half the length over the difference of both slabs. Prints it in W/(m K), with the
difference in K, the length of the box in nm and the mean temperature, as JSON.
"""

import json
import sys
from pathlib import Path


def read(text: str) -> list[float]:
    """Return the temperature of each bin, of the last profile of a file."""
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    first = max(n for n, row in enumerate(rows) if row[0] == "1")
    return [float(row[1]) for row in rows[first:]]


def difference(bins: list[float]) -> float:
    """Return by how much the hot slab is hotter than the cold one."""
    middle = len(bins) // 2
    return (bins[0] + bins[1] - bins[middle] - bins[middle + 1]) / 2


def main() -> None:
    """Print the conductivity of a box of this length."""
    state = json.loads(Path(sys.argv[2]).read_text())
    apart = difference(read(Path(sys.argv[1]).read_text()))
    found = float(sys.argv[3]) * state["length"] / 2 / apart
    print(json.dumps({"kappa": found, "difference": apart, **state}))


if __name__ == "__main__":
    main()
