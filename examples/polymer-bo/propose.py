"""Bayesian optimization: which sequences to simulate next, by what is known of the others.

Usage: propose.py TABLE TARGET POINTS NEXT BEST

TABLE is that of the sweep so far, with a row for each sequence. A Gaussian process learns R_g from
features of a sequence; the next POINTS sequences are those whose deviation |R_g - TARGET| is
expected to improve the most on the best one so far (Jones, Schonlau and Welch, J. Glob. Optim. 13,
455, 1998). No number is drawn: the same table gives the same answer.
"""

import csv
import json
import sys
import warnings
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

SEED = 4711

Array = NDArray[np.float64]


class Known(NamedTuple):
    """A sequence that was simulated: its R_g, the standard error, and in which round."""

    sequence: str
    rg: float
    error: float
    round: int


def read(path: Path) -> list[Known]:
    """Return the sequences whose task is done, in the order of the table."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "done"]
    return [
        Known(r["sequence"], float(r["rg"]), float(r["rg_error"]), int(r["round"])) for r in rows
    ]


def one_of_both(sequence: str) -> str:
    """Return a sequence or its mirror image, which is the same chain: the first by alphabet."""
    return min(sequence, sequence[::-1])


def space(beads: int) -> list[str]:
    """Return every chain of so many beads once."""
    every = map("".join, product("AB", repeat=beads))
    return [sequence for sequence in every if sequence == one_of_both(sequence)]


def features(sequence: str) -> list[float]:
    """Return what a sequence is like; its mirror image is like it.

    The share of A; how many beads that are 1, 2, ... bonds apart are both A (the blocks, and which
    loops attraction closes); and the share of A in each pair of places as far from the ends.
    """
    a = [float(bead == "A") for bead in sequence]
    beads = len(a)
    apart = [sum(a[n] * a[n + k] for n in range(beads - k)) / (beads - k) for k in range(1, beads)]
    places = [(a[n] + a[-1 - n]) / 2 for n in range((beads + 1) // 2)]
    return [sum(a) / beads, *apart, *places]


def expected(rg: Array, spread: Array, target: float, best: float) -> Array:
    """Return by how much |R_g - target| is expected to be below the best, for normal R_g.

    max(0, best - |x|) is a triangle, the sum of three ramps, and each of them has a closed form.
    """

    def ramp(from_: float) -> Array:
        z = (rg - from_) / spread
        found: Array = spread * (z * norm.cdf(z) + norm.pdf(z))
        return found

    return ramp(target - best) - 2 * ramp(target) + ramp(target + best)


def fitted(known: list[Known]) -> GaussianProcessRegressor:
    """Return a Gaussian process of R_g, whose noise is the standard error of each run."""
    rg = np.array([one.rg for one in known])
    scale = rg.std() or 1.0
    model = GaussianProcessRegressor(
        ConstantKernel(1.0, (0.1, 100.0)) * Matern(2.0, (0.2, 20.0), nu=2.5),
        alpha=np.array([(one.error / scale) ** 2 + 1e-8 for one in known]),
        normalize_y=True,
        n_restarts_optimizer=2,
        random_state=SEED,
    )
    with warnings.catch_warnings():
        # A length at an end of its range is an answer too.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit([features(one.sequence) for one in known], rg)


def proposed(known: list[Known], target: float, points: int) -> list[tuple[str, float]]:
    """Return the next sequences, each with its expected improvement.

    After each of them the model believes what it expects, so that the next one lies elsewhere
    (the kriging believer of Ginsbourger, Le Riche and Carraro, 2010).
    """
    believed, found = list(known), []
    for _ in range(points):
        seen = {one_of_both(one.sequence) for one in believed}
        free = [one for one in space(len(known[0].sequence)) if one not in seen]
        if not free:
            break
        rg, spread = fitted(believed).predict([features(one) for one in free], return_std=True)
        best = min(abs(one.rg - target) for one in known)
        gain = expected(rg, np.maximum(spread, 1e-9), target, best)
        # Rounded, so that the first by alphabet is taken where two are as good.
        at = int(np.argmax(np.round(gain, 9)))
        found.append((free[at], float(gain[at])))
        believed.append(Known(free[at], float(rg[at]), float(spread[at]), known[-1].round + 1))
    return found


def main() -> None:
    """Write the next points and the best one so far."""
    known, target = read(Path(sys.argv[1])), float(sys.argv[2])
    best = min(known, key=lambda one: (abs(one.rg - target), one.sequence))
    after = proposed(known, target, int(sys.argv[3]))
    lines = ["sequence", *(sequence for sequence, _ in after)]
    Path(sys.argv[4]).write_text("\n".join(lines) + "\n")
    found = {
        **best._asdict(),
        "deviation": abs(best.rg - target),
        "points": len(known),
        "expected_improvement": max((gain for _, gain in after), default=0.0),
    }
    Path(sys.argv[5]).write_text(json.dumps(found, indent=2) + "\n")
    print(f"best of {len(known)}: {best.sequence}, R_g = {best.rg:.4f} +- {best.error:.4f} sigma")


if __name__ == "__main__":
    main()
