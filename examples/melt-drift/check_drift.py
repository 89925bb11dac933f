"""Check that the total energy of a run is conserved: the relative drift from its first value.

Usage: check_drift.py LOG LIMIT; exit code 1 where the drift is not below LIMIT.
"""

import sys
from pathlib import Path


def energies(log: Path) -> list[float]:
    """Return the total energies of the thermo table (columns Step Temp TotEng Press)."""
    lines = log.read_text().splitlines()
    start = next(
        n for n, line in enumerate(lines) if line.split()[:3] == ["Step", "Temp", "TotEng"]
    )
    end = next(n for n, line in enumerate(lines) if line.startswith("Loop time"))
    return [float(line.split()[2]) for line in lines[start + 1 : end]]


def main() -> None:
    """Print the drift and leave with what it says."""
    found = energies(Path(sys.argv[1]))
    drift = max(abs(energy - found[0]) for energy in found) / abs(found[0])
    limit = float(sys.argv[2])
    print(f"relative energy drift {drift:.2e}, limit {limit:.0e}")
    sys.exit(drift >= limit)


if __name__ == "__main__":
    main()
