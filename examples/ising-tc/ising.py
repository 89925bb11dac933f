"""The Ising model on a square of L x L spins with periodic edges, by Wolff's cluster flips.

Usage: ising.py T L SEED FLIPS

Prints, as JSON, the means of the second and fourth power of the magnetisation per spin
(Wolff, Phys. Rev. Lett. 62, 361, 1989). T is in units of J.
"""

import json
import math
import sys
from random import Random


def neighbours(size: int) -> list[tuple[int, int, int, int]]:
    """Return the four neighbours of each site, by number."""
    found = []
    for site in range(size * size):
        row, column = divmod(site, size)
        beside = (row * size + (column + 1) % size, row * size + (column - 1) % size)
        above = ((row + 1) % size * size + column, (row - 1) % size * size + column)
        found.append((*beside, *above))
    return found


def flip(
    spins: list[int], near: list[tuple[int, int, int, int]], chance: float, luck: Random
) -> int:
    """Flip one cluster, and return by how much the sum of all spins has changed."""
    seed = luck.randrange(len(spins))
    up = spins[seed]
    spins[seed] = -up
    waiting, flipped, draw = [seed], 1, luck.random
    while waiting:
        for site in near[waiting.pop()]:
            if spins[site] == up and draw() < chance:
                spins[site] = -up
                waiting.append(site)
                flipped += 1
    return -2 * up * flipped


def measure(temperature: float, size: int, seed: int, flips: int) -> dict[str, float]:
    """Return the moments over ``flips`` clusters, after a tenth as many to forget the start."""
    luck = Random(f"{temperature} {size} {seed}")
    spins, near = [1] * size**2, neighbours(size)
    chance = 1 - math.exp(-2 / temperature)
    total, second, fourth = size**2, 0.0, 0.0
    for _ in range(flips // 10):
        total += flip(spins, near, chance, luck)
    for _ in range(flips):
        total += flip(spins, near, chance, luck)
        square = (total / size**2) ** 2
        second += square
        fourth += square**2
    return {"m2": second / flips, "m4": fourth / flips}


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]), *map(int, sys.argv[2:5]))))
