"""Judge a search by a survey of the whole space.

Usage: check_best.py BEST SURVEY TARGET OUT

The search has found the optimum if the survey's deviation |R_g - TARGET| of its sequence is that of
the survey's best one, or differs from it by no more than one standard error: that of the search and
those of the survey together. It may have simulated a quarter of the space.
"""

import csv
import json
import math
import sys
from pathlib import Path

Survey = dict[str, tuple[float, float]]
"""Sequence → its R_g and the standard error."""


def judged(best: dict[str, object], survey: Survey, target: float) -> dict[str, object]:
    """Return whether a search has found the optimum of a survey, and by which numbers."""
    off = {sequence: abs(rg - target) for sequence, (rg, _) in survey.items()}
    optimum = min(off, key=lambda sequence: off[sequence])

    def error(sequence: str) -> float:
        return math.hypot(float(str(best["error"])), survey[sequence][1], survey[optimum][1])

    equal = sorted(one for one in off if off[one] - off[optimum] <= error(one))
    points, limit = int(str(best["points"])), len(survey) // 4
    return {
        "found": best["sequence"] in equal and points <= limit,
        "sequence": best["sequence"],
        "optimum": optimum,
        "equal_to_it": equal,
        "points": points,
        "quarter": limit,
        "difference": off[str(best["sequence"])] - off[optimum],
        "error": error(str(best["sequence"])),
    }


def main() -> None:
    """Write the verdict."""
    best = json.loads(Path(sys.argv[1]).read_text())
    with Path(sys.argv[2]).open(newline="") as file:
        rows = [*csv.DictReader(file)]
    survey = {row["sequence"]: (float(row["rg"]), float(row["error"])) for row in rows}
    verdict = judged(best, survey, float(sys.argv[3]))
    Path(sys.argv[4]).write_text(json.dumps(verdict, indent=2) + "\n")
    print(f"{verdict['sequence']} of {verdict['points']}; the optimum is {verdict['optimum']}")


if __name__ == "__main__":
    main()
