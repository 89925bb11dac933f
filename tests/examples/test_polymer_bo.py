"""The copolymer search by Bayesian optimization: its proposals are valid and reproducible.

A killed search gives the same result.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any

import pytest

from tests.cli.support import HERE, Place, wfctl
from tests.examples.scripts import script_of
from tests.need import need, need_programs

EXAMPLE = HERE / "examples/polymer-bo"
#: Seconds that the small plan may take next to other tests.
WITHIN = 800


def script(name: str) -> ModuleType:
    """Return a script of the example as a module."""
    need(find_spec("sklearn") is not None, "not installed: scikit-learn")
    return script_of(EXAMPLE, name)


@pytest.fixture(scope="module")
def propose() -> ModuleType:
    """Return the script that proposes the next points, as a module."""
    return script("propose")


def plan(name: str = "small.toml") -> dict[str, Any]:
    """Return a plan of the example."""
    return tomllib.loads((EXAMPLE / name).read_text("utf-8"))


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def surveyed() -> dict[str, float]:
    """Return the radius of gyration of every sequence from the survey."""
    return {row["sequence"]: float(row["rg"]) for row in rows(EXAMPLE / "survey.csv")}


@pytest.mark.parametrize(
    ("name", "beads", "size"), [("small.toml", 8, 136), ("plan.toml", 10, 528)]
)
def test_envelope_contains_each_chain_once(
    propose: ModuleType, name: str, beads: int, size: int
) -> None:
    """The space lists only one of a sequence and its mirror image, as the proposer does."""
    within = plan(name)["rounds"]["search"]["within"]["sequence"]
    assert within == propose.space(beads)
    assert len(within) == size


def test_features_identify_a_chain_from_both_ends(propose: ModuleType) -> None:
    """A sequence and its mirror image have the same features. Different chains differ."""
    space = propose.space(8)
    for sequence in space:
        assert propose.features(sequence) == propose.features(sequence[::-1])
    assert len({tuple(propose.features(sequence)) for sequence in space}) == len(space)


@pytest.mark.parametrize(("rg", "spread"), [(1.2, 0.05), (1.3, 0.02), (1.1, 0.3), (1.205, 0.001)])
def test_expected_improvement_matches_a_simulation(
    propose: ModuleType, rg: float, spread: float
) -> None:
    """The formula agrees with the mean over 100,000 random radii."""
    import numpy as np

    dice = random.Random(1)
    drawn = fmean(max(0.0, 0.03 - abs(dice.gauss(rg, spread) - 1.2)) for _ in range(100_000))
    (found,) = propose.expected(np.array([rg]), np.array([spread]), 1.2, 0.03)
    assert found == pytest.approx(drawn, rel=0.03, abs=2e-5)


def test_radius_error_matches_independent_values() -> None:
    """The script finds the error of random values that are drawn with a known spread."""
    radius, dice = script("radius"), random.Random(2)
    means = radius.block_means([dice.gauss(1.44, 0.3) for _ in range(20_000)], 20)
    rg, error = radius.radius(means)
    assert rg == pytest.approx(1.2, abs=0.003)
    assert error == pytest.approx(0.3 / 20_000**0.5 / (2 * 1.2), rel=0.5)


def test_bootstrap_error_matches_the_block_error() -> None:
    """The bootstrap error is smaller by the known sample factor, and depends on the seed."""
    radius, bootstrap, dice = script("radius"), script("bootstrap"), random.Random(3)
    means = [dice.gauss(1.44, 0.01) for _ in range(20)]
    errors = [bootstrap.bootstrap(means, 4000, seed) for seed in (1, 2)]
    assert errors == pytest.approx([radius.radius(means)[1] * (19 / 20) ** 0.5] * 2, rel=0.05)
    assert errors[0] != errors[1]


@pytest.mark.parametrize(
    ("last", "code", "words"),
    [
        ("AB,0.01,7\nBB,0.02,8\nAA,0.03,9\n", 0, "2 rounds; computed again: none"),
        ("AB,0.01,7\nBB,0.04,5\nAA,0.03,9\n", 1, "2 rounds; computed again: BB"),
        ("BB,0.02,8\nAA,0.03,9\n", 1, "2 rounds; computed again: AB"),
    ],
    ids=["the same", "another error", "no longer there"],
)
def test_changed_number_of_an_earlier_round_is_found(
    tmp_path: Path, last: str, code: int, words: str
) -> None:
    """The check script reports a changed or lost number, but no number of a later round."""
    head = "sequence,bootstrap_error,seed\n"
    tables = {"last": last, "one": "AB,0.01,7\n", "two": "AB,0.01,7\nBB,0.02,8\n"}
    for name, lines in tables.items():
        (tmp_path / name).write_text(head + lines)
    command = [sys.executable, str(EXAMPLE / "check_rounds.py"), *tables]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (code, words)


def searched(propose: ModuleType) -> list[Any]:
    """Return the points of the small search, in which the survey replaces the simulation."""
    small, survey = plan(), surveyed()
    known: list[Any] = []
    asked = [point["sequence"] for point in small["stages"][0]["parameters"]["map"]["points"]]
    for number in range(1, small["rounds"]["search"]["at_most"] + 1):
        known += [propose.Known(one, survey[one], 0.003, number) for one in asked]
        target = small["stages"][0]["parameters"]["target"]
        asked = [one for one, _ in propose.proposed(known, target, 4)]
    return known


@pytest.mark.long
@pytest.mark.slow
def test_search_is_reproducible_and_finds_the_optimum(
    propose: ModuleType,
) -> None:
    """The search needs a quarter of the space and proposes no point twice."""
    known, survey = searched(propose), surveyed()
    assert known == searched(propose)
    assert len({propose.one_of_both(one.sequence) for one in known}) == len(known)
    target = plan()["stages"][0]["parameters"]["target"]
    optimum = min(survey, key=lambda sequence: abs(survey[sequence] - target))
    assert optimum in {one.sequence for one in known}
    assert len(known) <= len(survey) // 4


@pytest.mark.parametrize(
    ("sequence", "points", "found"),
    [("AB", 2, True), ("BB", 2, True), ("AA", 2, False), ("AB", 3, False)],
)
def test_search_result_is_compared_with_the_survey(sequence: str, points: int, found: bool) -> None:
    """The script accepts a result near the optimum from a quarter of the space."""
    radii = {"AB": 1.201, "BB": 1.197, "AA": 1.1, **{f"B{n}": 1.5 + n for n in range(5)}}
    survey = {one: (rg, 0.001) for one, rg in radii.items()}
    best = {"sequence": sequence, "error": 0.003, "points": points}
    assert script("check_best").judged(best, survey, 1.2)["found"] is found


def environment() -> Mapping[str, str]:
    """Return an environment whose `python3` has the imports of the proposer."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(HERE)}


@contextmanager
def running(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """Start `wfctl run`, and kill it with SIGKILL at the end."""
    command = [sys.executable, "-m", "cli.main", "--root", str(place.path), "run"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment(), stdout=quiet, stderr=quiet) as process:
        yield process
        process.kill()


def until_round(place: Place, number: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a round has started and its first task runs."""
    end = time.monotonic() + WITHIN
    while f"Round {number} of search began" not in place.log():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)
    before = len([*(place.path / "simulate/tasks").iterdir()])
    while len([*(place.path / "simulate/tasks").iterdir()]) == before:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def search(folder: Path, killed_in: int | None = None) -> Place:
    """Run the small plan to its end, optionally with a kill and a restart in a round."""
    place = Place(folder)
    shutil.copytree(EXAMPLE, place.path, ignore=shutil.ignore_patterns("__pycache__"))
    place.done("init", str(place.path / "small.toml"), "--consent", "trust")
    if killed_in is not None:
        with running(place) as process:
            until_round(place, killed_in, process)
    root = ("--root", str(place.path))
    answer = wfctl(*root, "run", cwd=place.path, environ=environment(), within=WITHIN)
    assert answer.code == 0, (answer, place.log())
    return place


def assert_errors_are_computed_once(place: Place, sequences: list[str]) -> None:
    """Check that the last table contains every number of earlier rounds unchanged."""
    columns = ("sequence", "bootstrap_error", "seed", "attempts")

    def numbers(path: Path) -> list[tuple[str, ...]]:
        return [tuple(row[name] for name in columns) for row in rows(path)]

    last = numbers(place.path / "bootstrap/tasks.csv")
    assert [row[0] for row in last] == sequences
    assert {row[-1] for row in last} == {"1"}
    assert len({row[2] for row in last}) == len(last)
    earlier = sorted(place.path.glob("propose/round-*/errors.csv"))
    assert len(earlier) >= 2
    for path in earlier:
        of_round = numbers(path)
        assert of_round == last[: len(of_round)], path


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_killed_search_finds_the_same_optimum(tmp_path: Path) -> None:
    """After a kill, the search computes the same points in the same order, each once."""
    need_programs("lmp")
    script("propose")
    place = search(tmp_path / "killed", killed_in=3)
    verdict = json.loads((place.path / "judge/verdict.json").read_text())
    assert verdict["found"], verdict
    table = rows(place.path / "simulate/tasks.csv")
    sequences = [row["sequence"] for row in table]
    assert len({min(one, one[::-1]) for one in sequences}) == len(sequences) <= 136 // 4
    assert {(row["state"], row["attempts"]) for row in table} == {("done", "1")}
    assert "<circle" in (place.path / "propose/search.svg").read_text()
    assert_errors_are_computed_once(place, sequences)
    assert wfctl("--root", str(place.path), "fsck", "--protocol").code == 0
    other = search(tmp_path / "whole")
    points = [(row["round"], row["sequence"], row["rg"]) for row in table]
    again = rows(other.path / "simulate/tasks.csv")
    assert [(row["round"], row["sequence"], row["rg"]) for row in again] == points
