"""Write a stretched chain of A and B beads as a LAMMPS data file.

Usage: chain.py SEQUENCE OUT

SEQUENCE is a text such as AABBABAB. Lengths are in sigma. A zigzag has whole bonds and no overlap;
the run forgets it within some hundred tau.
"""

import math
import sys
from pathlib import Path

#: Where FENE and the repulsion balance (Kremer and Grest 1990), and the angle of the zigzag.
BOND, TILT = 0.97, math.radians(30)
#: Half the edge of the box: a chain of 12 beads does not meet its own image.
HALF = 15.0
TYPES = {"A": 1, "B": 2}


def data_file(sequence: str) -> str:
    """Return a chain as a LAMMPS data file of the atom style ``bond``."""
    beads = len(sequence)
    along, aside = BOND * math.cos(TILT), BOND * math.sin(TILT)
    atoms = [
        f"{n + 1} 1 {TYPES[bead]} {(n - beads / 2) * along:.8f} {n % 2 * aside:.8f} 0"
        for n, bead in enumerate(sequence)
    ]
    bonds = [f"{n} 1 {n} {n + 1}" for n in range(1, beads)]
    edges = [f"{-HALF} {HALF} {axis}lo {axis}hi" for axis in "xyz"]
    head = [f"{beads} atoms", f"{len(bonds)} bonds", "2 atom types", "1 bond types"]
    parts = [[f"Copolymer {sequence}"], head, edges, ["Masses", "", "1 1.0", "2 1.0"]]
    parts += [["Atoms # bond", "", *atoms], ["Bonds", "", *bonds]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(data_file(sys.argv[1]))
