"""Average temperature and pressure over the second half of a run.

Usage: measure.py LOG OUT
"""

import json
import sys
from pathlib import Path
from statistics import fmean


def main() -> None:
    """Read the thermo table (columns Step Temp TotEng Press) and write the averages."""
    lines = Path(sys.argv[1]).read_text().splitlines()
    start = next(
        n for n, line in enumerate(lines) if line.split()[:3] == ["Step", "Temp", "TotEng"]
    )
    end = next(n for n, line in enumerate(lines) if line.startswith("Loop time"))
    rows = [[float(word) for word in line.split()] for line in lines[start + 1 : end]]
    late = rows[len(rows) // 2 :]
    found = {
        "temperature": fmean(row[1] for row in late),
        "pressure": fmean(row[3] for row in late),
    }
    Path(sys.argv[2]).write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
