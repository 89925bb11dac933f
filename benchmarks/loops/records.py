"""Run the loop with a process pool and a record of finished steps, like DP-GEN.

A finished step appends the numbers of its round and step to `record.dpgen`. A restart continues
after the last recorded step.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.loops.point import EACH, ROUNDS, choose, evaluate, read

RECORD = Path("record.dpgen")


def make(number: int) -> None:
    """Choose the points of a round from the results of all earlier rounds."""
    points = choose(read(sorted(Path().glob("data-*.csv"))))
    Path(f"asked-{number}.json").write_text(json.dumps(points))


def run(number: int) -> None:
    """Compute the points of a round in parallel, and write their results."""
    points = json.loads(Path(f"asked-{number}.json").read_text())
    with ProcessPoolExecutor(EACH) as pool:
        found = dict(zip(points, pool.map(evaluate, points), strict=True))
    Path(f"found-{number}.json").write_text(json.dumps(found))


def post(number: int) -> None:
    """Write the results of a round as a table, which later rounds read."""
    found = json.loads(Path(f"found-{number}.json").read_text())
    lines = [f"{x},{f}\n" for x, f in found.items()]
    Path(f"data-{number}.csv").write_text("x,f\n" + "".join(lines))


def main() -> None:
    """Continue the loop after the last recorded step, and write `done` at its end."""
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
