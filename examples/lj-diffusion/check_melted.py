"""Whether a crystal has melted: its atoms have left their places in the lattice.

Usage: check_melted.py STATE LEAST; exit code 1 where the mean square displacement is below LEAST.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    gone, least = found["gone"], float(sys.argv[2])
    if gone < least:
        sys.exit(f"still a crystal: atoms have gone {gone:.2f} sigma^2, a liquid {least:g} or more")
    print(f"melted: atoms have gone {gone:.2f} sigma^2")
