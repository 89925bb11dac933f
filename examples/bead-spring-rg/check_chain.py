"""Check a chain in a LAMMPS data file: its bonds are whole, and no two beads overlap.

Usage: check_chain.py DATA BEADS

Lengths are in sigma. A bond of the Kremer-Grest model breaks at 1.5; at a temperature of 1 it is
0.8 to 1.25 long, and other beads hardly ever come closer than 0.8.
"""

import itertools
import math
import sys
from pathlib import Path

SHORTEST, LONGEST, NEAREST = 0.75, 1.35, 0.75


def beads(text: str) -> list[tuple[float, ...]]:
    """Return the places of the beads in the order of their ids, unwrapped."""
    lines = text.splitlines()
    edges = [tuple(map(float, line.split()[:2])) for line in lines if line.endswith("hi")]
    start = next(n for n, line in enumerate(lines) if line.startswith("Atoms")) + 2
    rows = []
    for line in lines[start:]:
        if not line.strip():
            break
        rows.append(line.split())
    rows.sort(key=lambda row: int(row[0]))
    return [unwrapped(row, edges) for row in rows]


def unwrapped(row: list[str], edges: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Return a bead's place (columns id molecule type x y z, and images where they are)."""
    images = [int(word) for word in row[6:9]] or [0, 0, 0]
    return tuple(
        float(x) + n * (high - low)
        for x, n, (low, high) in zip(row[3:6], images, edges, strict=True)
    )


def main() -> None:
    """Print what was found and leave with what it says."""
    chain = beads(Path(sys.argv[1]).read_text())
    bonds = [math.dist(a, b) for a, b in itertools.pairwise(chain)]
    others = [math.dist(a, b) for n, a in enumerate(chain) for b in chain[n + 2 :]]
    print(
        f"{len(chain)} beads, bonds of {min(bonds):.3f} to {max(bonds):.3f} sigma, the nearest "
        f"others {min(others):.3f} sigma apart"
    )
    whole = min(bonds) > SHORTEST and max(bonds) < LONGEST and min(others) > NEAREST
    sys.exit(not (whole and len(chain) == int(sys.argv[2])))


if __name__ == "__main__":
    main()
