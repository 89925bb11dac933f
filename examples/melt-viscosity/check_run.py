"""Whether a run was that of the liquid which the plan names.

Usage: check_run.py LOG RESULT TEMPERATURE PART; exit code 1 where LAMMPS missed a neighbour, or the
mean temperature differs from TEMPERATURE by more than the part PART.
"""

import json
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    if re.search(r"Dangerous builds = [1-9]", Path(sys.argv[1]).read_text()):
        sys.exit("LAMMPS missed a neighbour (dangerous builds)")
    found = json.loads(Path(sys.argv[2]).read_text())["temperature"]
    wanted, part = map(float, sys.argv[3:5])
    text = f"T = {found:.3f} epsilon, wanted {wanted:g} to {part:.0%}"
    if abs(found - wanted) > part * wanted:
        sys.exit(text)
    print(text)
