"""Whether a conductivity is as sharp as was asked for, and is that of a box without an end.

Usage: check_conductivity.py RESULT PART; exit code 1 where its error is above the part PART of it
(the rounds were used up), or it is not above that of the longest box.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    value, error, longest = found["conductivity"], found["error"], found["longest"]
    text = (
        f"conductivity {value:.1f} +- {error:.1f} W/(m K) from {found['runs']} runs; "
        f"the longest box, {longest['length']:.1f} nm, has {longest['kappa']:.1f}"
    )
    if not 0 < error <= float(sys.argv[2]) * value:
        sys.exit(f"the error is {error:.2g}, asked for {sys.argv[2]} of the value; {text}")
    if value <= longest["kappa"]:
        sys.exit(text)
    print(text)
