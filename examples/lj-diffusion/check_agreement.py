"""Whether both ways to the diffusion coefficient agree.

Usage: check_agreement.py RESULT LIMIT; exit code 1 where they differ by more than the part LIMIT.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    limit = float(sys.argv[2])
    text = (
        f"both ways differ by {found['difference']:.1%} (limit {limit:.0%}), the errors of both "
        f"let expect {found['expected']:.1%}"
    )
    if found["difference"] > limit:
        sys.exit(text)
    print(f"E = {found['energy']:.2f} epsilon; {text}")
