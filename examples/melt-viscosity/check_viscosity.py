"""Whether a viscosity agrees with a published one.

Usage: check_viscosity.py RESULT VALUE ERROR SIGMAS; exit code 1 where both differ by more than
SIGMAS of their common standard error.
"""

import json
import math
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    value, error, sigmas = map(float, sys.argv[2:5])
    apart = abs(found["viscosity"] - value) / math.hypot(found["error"], error)
    text = (
        f"viscosity {found['viscosity']:.3f} +- {found['error']:.3f} from {found['seeds']} seeds, "
        f"published {value:g} +- {error:g}: {apart:.1f} standard errors apart (limit {sigmas:g})"
    )
    if apart > sigmas:
        sys.exit(text)
    print(text)
