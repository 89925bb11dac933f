"""The loop as a driver with a record of its steps, as DP-GEN has one, and a pool of processes.

Each step appends its round and its number to `record.dpgen` once it is done; a restart goes on
behind the last line.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.loops.point import EACH, ROUNDS, choose, evaluate, read

RECORD = Path("record.dpgen")


def make(number: int) -> None:
    """Choose the points of a round from all that is known."""
    points = choose(read(sorted(Path().glob("data-*.csv"))))
    Path(f"asked-{number}.json").write_text(json.dumps(points))


def run(number: int) -> None:
    """Compute the points of a round."""
    points = json.loads(Path(f"asked-{number}.json").read_text())
    with ProcessPoolExecutor(EACH) as pool:
        found = dict(zip(points, pool.map(evaluate, points), strict=True))
    Path(f"found-{number}.json").write_text(json.dumps(found))


def post(number: int) -> None:
    """Add the numbers of a round to the data."""
    found = json.loads(Path(f"found-{number}.json").read_text())
    lines = [f"{x},{f}\n" for x, f in found.items()]
    Path(f"data-{number}.csv").write_text("x,f\n" + "".join(lines))


def main() -> None:
    """Go on behind the last step on record."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    last = tuple(map(int, lines[-1].split())) if lines else (0, 0)
    for number in range(1, ROUNDS + 1):
        for place, step in enumerate((make, run, post)):
            if (number, place) > last:
                step(number)
                with RECORD.open("a") as record:
                    record.write(f"{number} {place}\n")
    Path("done").touch()


if __name__ == "__main__":
    main()
