"""Check the radius of gyration against what the plan says.

Usage: check_rg.py RG LOW HIGH ERROR; exit code 1 where R_g is not between LOW and HIGH (sigma), or
its standard error is not below the part ERROR of it.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    """Print R_g and leave with what it says."""
    found = json.loads(Path(sys.argv[1]).read_text())
    low, high, limit = map(float, sys.argv[2:5])
    rg, error = found["rg"], found["standard_error"]
    print(f"R_g = {rg:.2f} +- {error:.2f} sigma ({error / rg:.1%}, {found['blocks']} blocks)")
    sys.exit(not (low < rg < high and error / rg < limit))


if __name__ == "__main__":
    main()
