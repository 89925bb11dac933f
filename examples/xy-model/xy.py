"""Simulate the XY model on an L x L square, and print samples of its bonds as CSV.

Usage: python3 xy.py T L SWEEPS. The columns are the sums of cos and sin of the angle differences
over all bonds along x.
"""

import random
import sys
from math import cos, exp, pi, sin


def main(temperature: float, size: int, sweeps: int) -> None:
    """Run the Metropolis algorithm from an ordered start, and print a sample each second sweep."""
    random.seed(f"{temperature} {size}")
    beta = 1 / temperature
    angles = [[0.0] * size for _ in range(size)]
    print("cosines,sines")
    for sweep in range(sweeps):
        update(angles, size, beta)
        if sweep >= sweeps // 5 and sweep % 2 == 0:
            bonds = [angles[x][y] - angles[x - 1][y] for x in range(size) for y in range(size)]
            print(f"{sum(map(cos, bonds)):.6f},{sum(map(sin, bonds)):.6f}")


def update(angles: list[list[float]], size: int, beta: float) -> None:
    """Propose a new angle for each spin once, and accept it by the Metropolis rule."""
    for x in range(size):
        for y in range(size):
            near = (
                angles[x - 1][y],
                angles[(x + 1) % size][y],
                angles[x][y - 1],
                angles[x][(y + 1) % size],
            )
            old = angles[x][y]
            new = old + random.uniform(-pi / 2, pi / 2)
            gain = sum(cos(new - one) - cos(old - one) for one in near)
            if gain >= 0 or random.random() < exp(beta * gain):
                angles[x][y] = new


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
