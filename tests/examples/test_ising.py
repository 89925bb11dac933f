"""The Ising example: its statistics, crossings and errors are correct, and it completes."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess
import tomllib
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.support import Place, wfctl
from tests.examples.scripts import script_of

EXAMPLE = Path(__file__).parents[2] / "examples/ising-tc"
#: The expected result of the small plan. It is reproducible, because the plan fixes all random
#: seeds.
SMALL = 2.2612420782446874


script = partial(script_of, EXAMPLE)


ising, binder = script("ising"), script("binder")


def exact(temperature: float, size: int) -> tuple[float, float]:
    """Return the second and fourth moment, summed over all states of a small lattice."""
    near = ising.neighbours(size)
    total = second = fourth = 0.0
    for spins in itertools.product((-1, 1), repeat=size**2):
        pairs = ((site, beside[n]) for site, beside in enumerate(near) for n in (0, 2))
        bonds = sum(spins[a] * spins[b] for a, b in pairs)
        weight = math.exp(bonds / temperature)
        square = (sum(spins) / size**2) ** 2
        total += weight
        second += weight * square
        fourth += weight * square**2
    return second / total, fourth / total


def test_cluster_flips_give_the_exact_moments() -> None:
    """The simulation agrees with the sum over all 512 states of a small lattice."""
    found = ising.measure(2.5, 3, seed=1, flips=20_000)
    second, fourth = exact(2.5, 3)
    assert found["m2"] == pytest.approx(second, rel=0.01)
    assert found["m4"] == pytest.approx(fourth, rel=0.01)


def test_crossing_temperature_is_found() -> None:
    """The script finds the known temperature, with an error from the seeds' scatter."""
    tc, table = 2.27, {}
    for size in (8, 16):
        of_size = {}
        for step in range(9):
            temperature = 2.23 + 0.01 * step
            cumulant = 0.61 - 0.02 * size * (temperature - tc)
            shift = {str(seed): 0.001 * (-1) ** seed for seed in range(4)}
            of_size[temperature] = {
                seed: (1.0, 3 * (1 - cumulant) + by * size) for seed, by in shift.items()
            }
        table[size] = of_size
    found = binder.estimate(table)
    assert found["tc"] == pytest.approx(tc, abs=1e-6)
    assert 0.005 < found["error"] < 0.05
    assert found["crossings"].keys() == {"8-16"}


def begun(folder: Path) -> Place:
    """Return the example with a workflow of its small plan."""
    place = Place(folder / "ising")
    shutil.copytree(EXAMPLE, place.path)
    assert place.call("init", str(place.path / "small.toml"), "--consent", "trust").code == 0
    return place


def reruns(place: Place) -> None:
    """Run the method of the report again, and compare the digests of its results."""
    text = place.call("report", "-").out
    method = text[text.index("## Method") : text.index("## Attempts")]
    plan = tomllib.loads((place.path / "small.toml").read_text())
    for stage in plan["stages"]:
        for value in stage["parameters"].values():
            typed = value if isinstance(value, str) else json.dumps(value)
            assert typed.replace("{ ", "{") in method
    row = re.compile(r"^\| (\S+) \| .* \| `([0-9a-f]{64})` \|$", re.MULTILINE)
    known = dict(row.findall(method))
    named = {"ising.py", "binder.py", "check_tc.py", "stage-1/tasks.csv", "stage-2/tc.json"}
    assert named < known.keys()
    for path, digest in known.items():
        assert sha256((place.path / path).read_bytes()).hexdigest() == digest
    (command,) = re.findall(r"^- command: `(python3 ../binder.py .*)`$", method, re.MULTILINE)
    again = place.path / "again"
    again.mkdir()
    subprocess.run(["bash", "-c", command], cwd=again, check=True)
    assert sha256((again / "tc.json").read_bytes()).hexdigest() == known["stage-2/tc.json"]


@pytest.mark.long
@pytest.mark.slow
def test_small_plan_completes_and_an_amendment_adds_tasks(tmp_path: Path) -> None:
    """The seeds are fixed and so is the result; two more seeds add 24 tasks."""
    place = begun(tmp_path)
    answer = wfctl("--root", str(place.path), "run", cwd=place.path)
    assert answer.code == 0, answer
    assert json.loads((place.path / "stage-2/tc.json").read_text())["tc"] == pytest.approx(SMALL)
    assert "![stage-2/binder.svg]" in place.call("report", "-").out
    reruns(place)
    more = ("--stage", "stage-1", "--set", "parameters.map.grid.seed.to=6", "--reason", "sharper")
    shown = place.call("amend", "propose", *more).out
    assert "48 kept, 24 computed (about" in shown
    assert re.search(r"repeats computations that took \d s", shown)
    place.done("amend", "approve", "amend-1")
    assert wfctl("--root", str(place.path), "run", cwd=place.path).code == 0
    assert place.done("tasks", "stage-1")["counts"]["done"] == 72
