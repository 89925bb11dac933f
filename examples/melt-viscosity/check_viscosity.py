"""Whether a viscosity is as sharp as was asked for, and agrees with a published one.

Usage: check_viscosity.py RESULT PART VALUE ERROR SIGMAS; exit code 1 where its error is above the
part PART of it (the rounds were used up), or both differ by more than SIGMAS of their common
standard error.
"""

import json
import math
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    part, value, error, sigmas = map(float, sys.argv[2:6])
    relative = found["error"] / found["viscosity"]
    apart = abs(found["viscosity"] - value) / math.hypot(found["error"], error)
    text = (
        f"viscosity {found['viscosity']:.3f} +- {found['error']:.3f} from {found['seeds']} seeds, "
        f"published {value:g} +- {error:g}: {apart:.1f} standard errors apart (limit {sigmas:g})"
    )
    if relative > part:
        sys.exit(f"the relative error is {relative:.2%}, asked for {part:.2%}; {text}")
    if apart > sigmas:
        sys.exit(text)
    print(text)
