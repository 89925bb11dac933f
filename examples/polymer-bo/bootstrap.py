"""The standard error of a radius of gyration by bootstrap.

Usage: bootstrap.py RADIUS DRAWS OUT

RADIUS is what radius.py wrote. As many block means as there are get drawn with replacement, DRAWS
times; the spread of the radii that they yield is the error (Efron, Ann. Stat. 7, 1, 1979). The seed
is another one in each run, and OUT records it: a second run yields another number.
"""

import json
import math
import os
import sys
from pathlib import Path
from random import Random
from statistics import fmean, stdev


def bootstrap(means: list[float], draws: int, seed: int) -> float:
    """Return the standard error of R_g from the block means of its square."""
    luck = Random(seed)
    return stdev(math.sqrt(fmean(luck.choices(means, k=len(means)))) for _ in range(draws))


if __name__ == "__main__":
    means = json.loads(Path(sys.argv[1]).read_text())["block_means"]
    seed = int.from_bytes(os.urandom(4))
    found = {"error": bootstrap(means, int(sys.argv[2]), seed), "seed": seed}
    Path(sys.argv[3]).write_text(json.dumps(found, indent=2) + "\n")
