"""The function that every loop minimizes, and the rule that chooses the next points.

Uses only the standard library. `point.py evaluate X FILE` computes a point, and `point.py choose
BEST NEXT FILE…` chooses the next points. Both append lines to trace files in the folder
`LOOP_ROOT`.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROUNDS, EACH = 5, 2
FIRST = [0, 50]


def note(trace: str, line: str) -> None:
    """Append a line to a trace file in `LOOP_ROOT`, in one write."""
    with (Path(os.environ["LOOP_ROOT"]) / trace).open("a") as file:
        file.write(f"{line}\n")


def evaluate(x: int, name: str | None = None) -> float:
    """Return f(x) after 0.3 to 1 s, and record the start and end in trace files."""
    name = name or f"x={x}"
    note("began", name)
    time.sleep(0.3 + 0.7 * (x * 37 % 101) / 101)
    note("computed", name)
    return float((x - 60) ** 2)


def choose(known: dict[int, float]) -> list[int]:
    """Return the next points: unknown ones above the best, or the smallest unknown."""
    best = min(known, key=lambda x: (known[x], x), default=-1)
    new = [x for x in range(best + 1, 101) if x not in known][:EACH]
    new = new or [x for x in range(101) if x not in known][:EACH]
    note("chosen", " ".join(map(str, new if known else FIRST)))
    return new if known else FIRST


def read(paths: Iterable[str | Path]) -> dict[int, float]:
    """Read the known values of f by x from JSON files of points or from CSV tables."""
    known: dict[int, float] = {}
    for path in map(Path, paths):
        text = path.read_text()
        rows = csv.DictReader(text.splitlines()) if path.suffix == ".csv" else [json.loads(text)]
        known |= {int(row["x"]): float(row["f"]) for row in rows}
    return known


def main() -> None:
    """Compute one point, or choose the next points, as the command line requires."""
    match sys.argv[1:]:
        case ["evaluate", x, path]:
            Path(path).write_text(json.dumps({"x": int(x), "f": evaluate(int(x))}))
        case ["choose", best, path, *before]:
            known = read(before)
            Path(best).write_text(json.dumps({"f": min(known.values(), default=None)}))
            Path(path).write_text("x\n" + "".join(f"{x}\n" for x in choose(known)))


if __name__ == "__main__":
    main()
