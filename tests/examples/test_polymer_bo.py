"""The search for a copolymer: its proposals are sound and the same again, also after a kill."""

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
#: Seconds that the small plan may take where other tests run beside it.
WITHIN = 800


def script(name: str) -> ModuleType:
    """Return a script of the example as a module."""
    need(find_spec("sklearn") is not None, "not installed: scikit-learn")
    return script_of(EXAMPLE, name)


@pytest.fixture(scope="module")
def propose() -> ModuleType:
    """Return the proposer."""
    return script("propose")


def plan(name: str = "small.toml") -> dict[str, Any]:
    """Return a plan of the example."""
    return tomllib.loads((EXAMPLE / name).read_text("utf-8"))


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def surveyed() -> dict[str, float]:
    """Return R_g of every sequence."""
    return {row["sequence"]: float(row["rg"]) for row in rows(EXAMPLE / "survey.csv")}


@pytest.mark.parametrize(
    ("name", "beads", "size"), [("small.toml", 8, 136), ("plan.toml", 10, 528)]
)
def test_the_envelope_holds_each_chain_once(
    propose: ModuleType, name: str, beads: int, size: int
) -> None:
    """Of a sequence and its mirror image one; the proposer knows the same space."""
    within = plan(name)["rounds"]["search"]["within"]["sequence"]
    assert within == propose.space(beads)
    assert len(within) == size


def test_a_sequence_is_like_its_mirror_image_and_like_no_other(propose: ModuleType) -> None:
    """So that a chain is known from both ends."""
    space = propose.space(8)
    for sequence in space:
        assert propose.features(sequence) == propose.features(sequence[::-1])
    assert len({tuple(propose.features(sequence)) for sequence in space}) == len(space)


@pytest.mark.parametrize(("rg", "spread"), [(1.2, 0.05), (1.3, 0.02), (1.1, 0.3), (1.205, 0.001)])
def test_the_expected_improvement_is_the_mean_of_what_is_drawn(
    propose: ModuleType, rg: float, spread: float
) -> None:
    """Of the part by which |R_g - target| is below the best."""
    import numpy as np

    dice = random.Random(1)
    drawn = fmean(max(0.0, 0.03 - abs(dice.gauss(rg, spread) - 1.2)) for _ in range(100_000))
    (found,) = propose.expected(np.array([rg]), np.array([spread]), 1.2, 0.03)
    assert found == pytest.approx(drawn, rel=0.03, abs=2e-5)


def test_a_radius_has_the_error_of_independent_blocks() -> None:
    """Of values that are drawn, whose spread is known."""
    radius, dice = script("radius"), random.Random(2)
    rg, error = radius.radius([dice.gauss(1.44, 0.3) for _ in range(20_000)], 20)
    assert rg == pytest.approx(1.2, abs=0.003)
    assert error == pytest.approx(0.3 / 20_000**0.5 / (2 * 1.2), rel=0.5)


def searched(propose: ModuleType) -> list[Any]:
    """Return the points of the small search, where each simulation yields what the survey did."""
    small, survey = plan(), surveyed()
    known: list[Any] = []
    asked = [point["sequence"] for point in small["stages"][0]["parameters"]["map"]["points"]]
    for number in range(1, small["rounds"]["search"]["at_most"] + 1):
        known += [propose.Known(one, survey[one], 0.003, number) for one in asked]
        target = small["stages"][0]["parameters"]["target"]
        asked = [one for one, _ in propose.proposed(known, target, 4)]
    return known


@pytest.mark.slow
def test_the_same_table_leads_to_the_same_proposals_and_to_the_optimum(
    propose: ModuleType,
) -> None:
    """In less than a quarter of the space, of which no point is asked for twice."""
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
def test_a_search_is_judged_by_the_survey(sequence: str, points: int, found: bool) -> None:
    """The best one or its equal, and no more than a quarter of the space."""
    radii = {"AB": 1.201, "BB": 1.197, "AA": 1.1, **{f"B{n}": 1.5 + n for n in range(5)}}
    survey = {one: (rg, 0.001) for one, rg in radii.items()}
    best = {"sequence": sequence, "error": 0.003, "points": points}
    assert script("check_best").judged(best, survey, 1.2)["found"] is found


def environment() -> Mapping[str, str]:
    """Return an environment whose `python3` has what the proposer imports."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(HERE)}


@contextmanager
def running(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    """Start `wfctl run`, and kill it at the end as `kill -9` does."""
    command = [sys.executable, "-m", "cli.main", "--root", str(place.path), "run"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment(), stdout=quiet, stderr=quiet) as process:
        yield process
        process.kill()


def until_round(place: Place, number: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a round has begun and its first task runs."""
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
    """Run the small plan to its end; the program is killed in a round and started again."""
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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1700)
def test_a_search_finds_the_optimum_and_a_kill_changes_nothing(tmp_path: Path) -> None:
    """The same points in the same order, each computed once, in a quarter of the space at most."""
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
    assert wfctl("--root", str(place.path), "fsck", "--protocol").code == 0
    other = search(tmp_path / "whole")
    points = [(row["round"], row["sequence"], row["rg"]) for row in table]
    again = rows(other.path / "simulate/tasks.csv")
    assert [(row["round"], row["sequence"], row["rg"]) for row in again] == points
