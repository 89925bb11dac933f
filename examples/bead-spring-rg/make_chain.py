"""Grow one bead-spring chain without overlaps and write it as a LAMMPS data file.

Usage: make_chain.py BEADS SEED OUT

Lengths are in sigma. Each bead lies one bond from the one before, in a direction drawn at random
and drawn anew where it would come closer to an earlier bead than they may be; a chain that has
grown into a corner goes back some beads.
"""

import math
import random
import sys
from pathlib import Path

Bead = tuple[float, float, float]

#: Where FENE and the repulsion balance (Kremer and Grest 1990), and the nearest two beads may be.
BOND = 0.97
NEAREST = 1.02
#: Half the edge of the box; a stretched chain of 50 beads (48 sigma) does not meet its own image.
HALF = 50.0
DRAWS = 100
BACK = 5


def grow(beads: int, dice: random.Random) -> list[Bead]:
    """Return the places of the beads, the first in the middle of the box."""
    chain: list[Bead] = [(0.0, 0.0, 0.0)]
    while len(chain) < beads:
        found = next_bead(chain, dice)
        if found is None:
            del chain[max(1, len(chain) - BACK) :]
        else:
            chain.append(found)
    return chain


def next_bead(chain: list[Bead], dice: random.Random) -> Bead | None:
    """Return a free place one bond from the chain's end, None if none was found."""
    for _ in range(DRAWS):
        (x, y, z), (dx, dy, dz) = chain[-1], direction(dice)
        place = (x + BOND * dx, y + BOND * dy, z + BOND * dz)
        if all(math.dist(place, other) >= NEAREST for other in chain[:-1]):
            return place
    return None


def direction(dice: random.Random) -> Bead:
    """Return a unit vector, uniform on the sphere."""
    z, angle = dice.uniform(-1, 1), dice.uniform(0, 2 * math.pi)
    r = math.sqrt(1 - z * z)
    return r * math.cos(angle), r * math.sin(angle), z


def data_file(chain: list[Bead]) -> str:
    """Return the chain as a LAMMPS data file of the atom style ``bond``."""
    atoms = [f"{n} 1 1 {x:.8f} {y:.8f} {z:.8f}" for n, (x, y, z) in enumerate(chain, 1)]
    bonds = [f"{n} 1 {n} {n + 1}" for n in range(1, len(chain))]
    edges = [f"{-HALF} {HALF} {axis}lo {axis}hi" for axis in "xyz"]
    head = [f"{len(atoms)} atoms", f"{len(bonds)} bonds", "1 atom types", "1 bond types"]
    parts = [["One Kremer-Grest chain"], head, edges, ["Masses", "", "1 1.0"]]
    parts += [["Atoms # bond", "", *atoms], ["Bonds", "", *bonds]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def main() -> None:
    """Grow the chain, say how near its beads come, and write it."""
    beads, seed, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    chain = grow(beads, random.Random(seed))
    pairs = [math.dist(a, b) for n, a in enumerate(chain) for b in chain[n + 2 :]]
    out.write_text(data_file(chain))
    print(f"{beads} beads, bonds of {BOND} sigma, the nearest others {min(pairs):.3f} sigma apart")


if __name__ == "__main__":
    main()
