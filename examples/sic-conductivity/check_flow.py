"""Whether a run was that of the crystal which the plan names.

Usage: check_flow.py LOG RESULT TEMPERATURE PART DRIFT; exit code 1 where LAMMPS missed a neighbour,
heat did not flow from hot to cold, the mean temperature differs from TEMPERATURE by more than the
part PART, or the energy drifted by more than DRIFT (eV for each atom).
"""

import json
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    if re.search(r"Dangerous builds = [1-9]", Path(sys.argv[1]).read_text()):
        sys.exit("LAMMPS missed a neighbour (dangerous builds)")
    found = json.loads(Path(sys.argv[2]).read_text())
    wanted, part, drift = map(float, sys.argv[3:6])
    text = (
        f"kappa = {found['kappa']:.2f} W/(m K) at {found['temperature']:.0f} K, wanted {wanted:g} "
        f"to {part:.0%}; drift {found['drift']:.5f} eV, at most {drift:g}"
    )
    hot = abs(found["temperature"] - wanted) > part * wanted
    if found["kappa"] <= 0 or hot or abs(found["drift"]) > drift:
        sys.exit(text)
    print(text)
