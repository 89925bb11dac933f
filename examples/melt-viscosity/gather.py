"""The viscosity over all seeds so far, the seeds that come next, and a figure.

Usage: gather.py TABLE EACH PUBLISHED TIME

TABLE is that of the sweep over seeds, with a row for each task so far; its columns eta_1 to eta_7
and eta are the running integral at each eighth of TIME. Each seed is one estimate, the error that
of the mean of all. Writes viscosity.json, next.csv (EACH seeds, behind the highest so far) and
viscosity.svg.
"""

import csv
import json
import math
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

PARTS = 8
LEFT, RIGHT, TOP, BOTTOM = 60, 530, 30, 310
BLUE, ORANGE = "#0072b2", "#d55e00"


class Mean(NamedTuple):
    """The mean of the running integrals at a time, and its standard error."""

    t: float
    eta: float
    error: float


def table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def mean(estimates: list[float]) -> tuple[float, float]:
    """Return the mean of estimates that do not depend on each other, and its standard error."""
    return fmean(estimates), stdev(estimates) / math.sqrt(len(estimates))


def running(done: list[dict[str, str]], time: float) -> list[Mean]:
    """Return the mean of the running integrals of tasks, at each eighth of a time."""
    names = [*(f"eta_{part}" for part in range(1, PARTS)), "eta"]
    means = (mean([float(row[name]) for row in done]) for name in names)
    return [Mean(0, 0, 0), *(Mean(n * time / PARTS, *one) for n, one in enumerate(means, 1))]


def coming(rows: list[dict[str, str]], each: int) -> list[int]:
    """Return the seeds of the next round: those behind the highest so far, failed ones too."""
    last = max(int(row["seed"]) for row in rows)
    return list(range(last + 1, last + 1 + each))


def path_of(points: list[tuple[float, float]], end: float, high: float) -> str:
    """Return where points lie on the sheet, whose axes go to an end in time and in viscosity."""
    return " ".join(
        f"{LEFT + (RIGHT - LEFT) * t / end:.1f},{BOTTOM - (BOTTOM - TOP) * eta / high:.1f}"
        for t, eta in points
    )


def drawn(curve: list[Mean], published: float, seeds: int) -> str:
    """Return a figure of the mean of the running integrals, with a band of its standard error."""
    end, high = curve[-1].t, 1.5 * published
    low_edge = [(one.t, one.eta - one.error) for one in curve]
    band = low_edge + [(one.t, one.eta + one.error) for one in reversed(curve)]
    middle = [(one.t, one.eta) for one in curve]
    level = [(0.0, published), (end, published)]
    y = float(path_of(level, end, high).rpartition(",")[2])
    last = curve[-1]
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 360" '
        'font-family="sans-serif" font-size="13">'
    )
    dashed = f'stroke="{ORANGE}" stroke-dasharray="4 3"'
    told = f"{seeds} seeds: {last.eta:.3f} ± {last.error:.3f}"
    lines = [
        head,
        "<title>Running integral of Green and Kubo for the viscosity</title>",
        '<rect width="560" height="360" fill="white"/>',
        f'<polygon points="{path_of(band, end, high)}" fill="{BLUE}" fill-opacity="0.25"/>',
        f'<polyline points="{path_of(middle, end, high)}" fill="none" stroke="{BLUE}"/>',
        f'<polyline points="{path_of(level, end, high)}" {dashed}/>',
        f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#444"/>',
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{published:g}</text>',
        f'<text x="{LEFT - 8}" y="{BOTTOM + 4}" text-anchor="end">0</text>',
        f'<text x="{RIGHT}" y="{BOTTOM + 20}" text-anchor="middle">{end:g}</text>',
        f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 40}" text-anchor="middle">t / τ</text>',
        f'<text x="20" y="{TOP - 10}">η(t) / (ετ/σ³)</text>',
        f'<text x="300" y="{BOTTOM - 50}" fill="{BLUE}">{told}</text>',
        f'<text x="300" y="{BOTTOM - 30}" fill="{ORANGE}">published: {published:g}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write what all seeds come to, and which come next."""
    each, published, time = int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    rows = table(Path(sys.argv[1]))
    done = [row for row in rows if row["state"] == "done"]
    curve = running(done, time)
    value, error = curve[-1].eta, curve[-1].error
    found = {"viscosity": value, "error": error, "seeds": len(done)}
    Path("viscosity.json").write_text(json.dumps(found, indent=2) + "\n")
    seeds = coming(rows, each)
    Path("next.csv").write_text("".join(f"{one}\n" for one in ["seed", *seeds]))
    Path("viscosity.svg").write_text(drawn(curve, published, len(done)))
    print(f"viscosity {value:.3f} +- {error:.3f} from {len(done)} seeds")


if __name__ == "__main__":
    main()
