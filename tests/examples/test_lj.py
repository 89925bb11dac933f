"""The Lennard-Jones example: both methods find a known diffusion coefficient.

The commands of its page produce the figure.
"""

from __future__ import annotations

import csv
import json
import math
import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.examples.scripts import script_of
from tests.need import need_programs
from tests.tutorial.test_tutorial import follow, steps

EXAMPLE = Path(__file__).parents[2] / "examples/lj-diffusion"
PAGE = EXAMPLE / "README.md"
#: Maximum number of commands that the page needs from the plan to the figure.
COMMANDS = 9


script = partial(script_of, EXAMPLE)


motion, figure = script("motion"), script("figure")


def test_both_methods_find_the_langevin_coefficient() -> None:
    """Both methods find the exactly known diffusion coefficient of Langevin particles."""
    coefficient, lines = 0.7, ["# segment, time, msd, vacf, temperature"]
    for n in range(1001):
        t = n / 50
        msd = 6 * coefficient * (t - 1 + math.exp(-t))
        lines.append(f"1 {t} {msd} {3 * coefficient * math.exp(-t)} 1.2")
    (rows,) = motion.read("\n".join(lines))
    assert motion.einstein(rows, 10) == pytest.approx(coefficient, rel=1e-3)
    assert motion.green_kubo(rows) == pytest.approx(coefficient, rel=1e-3)


def test_arrhenius_parameters_are_recovered() -> None:
    """The fit finds the known parameters in data that scatter by 5 %."""
    dice, temperatures = random.Random(1), [0.7 + 0.15 * n for n in range(20)]
    curves = {
        name: [
            figure.Point(t, value * dice.gauss(1, 0.05), 0.05 * value)
            for t in temperatures
            for value in [0.3 * math.exp(-1.8 / t)]
        ]
        for name in figure.COLOURS
    }
    factor, energy = figure.arrhenius([point for curve in curves.values() for point in curve])
    assert (factor, energy) == (pytest.approx(0.3, rel=0.1), pytest.approx(1.8, rel=0.1))
    found = figure.compared(curves)
    assert found["expected"] == pytest.approx(0.05 * math.sqrt(2), rel=0.1)
    assert found["difference"] == pytest.approx(found["expected"], rel=0.5)


def test_walk_of_the_example_has_nine_commands() -> None:
    """The page has at most nine commands, with a kill and two changes of the plan."""
    told = [step.command for step in steps(PAGE.read_text("utf-8"))]
    assert len(told) <= COMMANDS
    assert told[0].startswith("wfctl init")
    assert any("KILL" in line for line in told)
    assert sum("plan apply" in line for line in told) == 2


@pytest.mark.long
@pytest.mark.slow
def test_commands_of_the_walk_produce_the_figure(tmp_path: Path) -> None:
    """All commands of the page run in a copy of the example and produce the figure."""
    need_programs("lmp", "bash", "sed", "timeout")
    place = tmp_path / "lj"
    shutil.copytree(EXAMPLE, place)
    follow(PAGE, place, tmp_path / "home", agrees=True)
    found = json.loads((place / "figure/diffusion.json").read_text())
    assert found["energy"] == pytest.approx(1.8, rel=0.15)
    assert "<circle" in (place / "figure/diffusion.svg").read_text()
    with (place / "equilibrate/tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Each point has one attempt, because neither the kill nor the amendment computes a point again.
    assert [(row["state"], row["attempts"]) for row in rows] == [("done", "1")] * 20
