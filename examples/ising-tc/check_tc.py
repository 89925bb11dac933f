"""Whether an estimate of T_c agrees with Onsager's value and is sharp enough.

Usage: check_tc.py RESULT SIGMAS ERROR
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    sigmas, most = float(sys.argv[2]), float(sys.argv[3])
    away = abs(found["tc"] - found["exact"])
    print(f"{away:.4f} from the exact value, error {found['error']:.4f}")
    sys.exit(0 if found["error"] <= most and away <= sigmas * found["error"] else 1)
