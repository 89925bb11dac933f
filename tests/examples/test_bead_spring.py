"""The bead-spring example: its chains do not overlap, its errors are correct, and it completes."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.support import Place, wfctl
from tests.examples.scripts import script_of
from tests.need import need_programs

EXAMPLE = Path(__file__).parents[2] / "examples/bead-spring-rg"


script = partial(script_of, EXAMPLE)


make_chain, check_chain, rg = script("make_chain"), script("check_chain"), script("rg")


@settings(max_examples=20)
@given(seed=st.integers(0, 10**9), beads=st.sampled_from([2, 10, 50]))
def test_grown_chain_has_correct_bonds_and_no_overlap(seed: int, beads: int) -> None:
    """A chain with any random seed is correct, and the data file contains the same chain."""
    chain = make_chain.grow(beads, random.Random(seed))
    assert len(chain) == beads
    bonds = [math.dist(a, b) for a, b in itertools.pairwise(chain)]
    assert bonds == pytest.approx([make_chain.BOND] * (beads - 1))
    others = [math.dist(a, b) for n, a in enumerate(chain) for b in chain[n + 2 :]]
    assert all(distance >= make_chain.NEAREST for distance in others)
    read = check_chain.beads(make_chain.data_file(chain))
    assert [x for bead in read for x in bead] == pytest.approx(
        [x for bead in chain for x in bead], abs=1e-7
    )


def test_periodic_images_are_unwrapped() -> None:
    """The position of a bead is restored from the number of times that it crossed the box."""
    atoms = "Atoms # bond\n\n2 1 1 -49.5 0 0 1 0 0\n1 1 1 49.5 0 0 0 0 0\n\nVelocities\n"
    text = "-50 50 xlo xhi\n-50 50 ylo yhi\n-50 50 zlo zhi\n\n" + atoms
    first, second = check_chain.beads(text)
    assert math.dist(first, second) == pytest.approx(1)


def test_block_average_gives_the_error_of_correlated_samples() -> None:
    """The error is correct although the samples depend on each other."""
    dice, decay, values = random.Random(1), 0.95, [0.0]
    for _ in range(200_000):
        values.append(decay * values[-1] + dice.gauss(0, 1))
    # The variance of the mean of n samples of an autoregressive process is 1 / (n (1 - decay)^2).
    exact = 1 / (1 - decay) / math.sqrt(len(values))
    assert rg.standard_error(rg.block_means(values, 200)) == pytest.approx(exact, rel=0.2)
    assert rg.standard_error(values) < exact / 4
    assert rg.correlation(values, 10) == pytest.approx(decay**10, abs=0.03)


def example(folder: Path, *, steps: tuple[int, int] | None = None) -> Place:
    """Return the example with its workflow, optionally with fewer steps."""
    need_programs("lmp")
    place = Place(folder / "chain")
    shutil.copytree(EXAMPLE, place.path)
    plan = place.path / "plan.toml"
    if steps is not None:
        short = iter(steps)
        text = re.sub(
            r"^steps = \d+",
            lambda _: f"steps = {next(short)}",
            plan.read_text(),
            flags=re.MULTILINE,
        )
        plan.write_text(
            text.replace("low = 4.4\nhigh = 5.1\nerror = 0.05", "low = 3\nhigh = 7\nerror = 0.5")
        )
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    return place


@pytest.mark.slow
@pytest.mark.long
def test_short_run_of_the_example_completes(tmp_path: Path) -> None:
    """Every stage runs in LAMMPS and is verified with relaxed criteria."""
    place = example(tmp_path, steps=(20_000, 200_000))
    answer = wfctl("--root", str(place.path), "run", cwd=place.path)
    assert answer.code == 0, answer
    found = json.loads((place.path / "stage-4/rg.json").read_text())
    assert found["samples"] == 2_000
    assert re.search(r"status -> completed \(R_g = \d\.\d\d \+- ", place.log())
