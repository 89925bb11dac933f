"""The demo's science: walks stay self-avoiding, averages are exact where they can be known."""

from __future__ import annotations

import json
import math
import random
import shlex
import subprocess
import sys
import tomllib
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.demo import saw

DEMO = Path(saw.__file__).parent
PLAN: dict[str, Any] = tomllib.loads((DEMO / "plan.toml").read_text(encoding="utf-8"))


def every_walk(length: int) -> list[bytes]:
    """Every self-avoiding walk of a length, by trying every sequence of steps."""
    walks = (bytes(steps) for steps in product(saw.STEPS, repeat=length))
    return [walk for walk in walks if saw.is_self_avoiding(walk)]


def saw_py(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a stage does."""
    command = [sys.executable, str(DEMO / "saw.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("length", "count", "squared"), [(1, 6, 6), (2, 30, 72), (3, 150, 582), (4, 726, 4032)]
)
def test_short_walks_are_as_many_and_as_long_as_published(
    length: int, count: int, squared: int
) -> None:
    """Counts and summed squares of Clisby, Liang and Slade, J. Phys. A 40, 10973 (2007)."""
    walks = every_walk(length)
    assert len(walks) == count
    assert sum(saw.squared_sizes(walk)[0] for walk in walks) == squared


@pytest.mark.parametrize("length", [2, 3, 4])
def test_samples_agree_with_the_exact_averages(length: int) -> None:
    """Both mean squares lie within five standard errors of the average over every walk."""
    exact = zip(*map(saw.squared_sizes, every_walk(length)), strict=True)
    walks = saw.sample(length, samples=4000, interval=5, discard=50, seed=1)
    found = zip(*map(saw.squared_sizes, walks), strict=True)
    for values, series in zip(exact, found, strict=True):
        got = saw.estimate(series)
        assert abs(got.mean - math.fsum(values) / len(values)) < 5 * got.error


def test_the_chain_reaches_every_short_walk() -> None:
    """The pivot algorithm is ergodic: no walk of four steps is left out."""
    reached = set(islice(saw.chain(4, random.Random(3)), 30_000))
    assert reached == set(every_walk(4))


@given(st.integers(2, 60), st.integers(0, 2**32))
def test_a_pivoted_walk_avoids_itself_and_keeps_its_length(length: int, seed: int) -> None:
    """A hundred pivots from a rod, checked with plain coordinates."""
    for walk in islice(saw.chain(length, random.Random(seed)), 100):
        place, visited = (0, 0, 0), {(0, 0, 0)}
        for step in walk:
            axis, sign = divmod(saw.STEPS.index(step), 2)
            place = tuple(c + (1 - 2 * sign) * (a == axis) for a, c in enumerate(place))  # type: ignore[assignment]
            visited.add(place)
        assert len(visited) == length + 1


def test_a_pivot_that_would_cross_leaves_the_walk_as_it_was() -> None:
    """Turning the end of a rod back onto it is refused."""
    reverse = bytes.maketrans(b"xX", b"Xx")
    assert saw.pivot(b"xxx", 1, reverse) == b"xxx"


def test_there_are_47_symmetries_besides_the_identity() -> None:
    """All differ, and each maps opposite steps to opposite steps."""
    found = [saw.STEPS.translate(move) for move in saw.symmetries()]
    assert len(set(found)) == 47
    assert saw.STEPS not in found
    assert all(
        image[i : i + 2].swapcase() == image[i : i + 2][::-1] for image in found for i in (0, 2, 4)
    )


def test_the_sizes_of_a_rod_and_a_corner_are_those_of_geometry() -> None:
    """A rod of two steps: 4 and 2/3; an L: 2 and 4/9."""
    assert saw.squared_sizes(b"xx") == pytest.approx((4, 2 / 3))
    assert saw.squared_sizes(b"xy") == pytest.approx((2, 4 / 9))


def test_the_error_of_a_correlated_series_counts_its_correlation() -> None:
    """An autoregressive series of coefficient 0.8 has tau = 1/2 + 0.8/0.2 = 4.5."""
    rng, value, series = random.Random(7), 0.0, []
    for _ in range(40_000):
        value = 0.8 * value + rng.gauss(0, 1)
        series.append(value)
    found = saw.estimate(series)
    assert found.tau == pytest.approx(4.5, rel=0.15)
    assert abs(found.mean) < 5 * found.error


def test_a_constant_series_has_no_error() -> None:
    """Every walk of one step has the same size."""
    assert saw.estimate([1.0, 1.0, 1.0]) == saw.Estimate(1.0, 0.0, 0.5)


def test_one_sample_is_too_few_for_an_error() -> None:
    """The message says how many were found."""
    with pytest.raises(ValueError, match=r"at least 2 samples.*found 1"):
        saw.estimate([1.0])


def test_an_exact_power_law_gives_its_exponent() -> None:
    """R^2 = 3 N^1.2 is nu = 0.6 with R^2 = 1."""
    rows = [{"length": n, "e": {"mean": 3 * n**1.2, "error": 0.01 * n}} for n in (5, 10, 20, 40)]
    line = saw.exponent(rows, "e")
    assert (line.slope, line.r_squared) == pytest.approx((0.6, 1.0))


def test_points_that_scatter_more_than_they_say_widen_the_error() -> None:
    """Errors said ten times too small come back at what the scatter shows."""
    xs, ys = [0.0, 1.0, 2.0, 3.0], [0.0, 1.1, 1.9, 3.0]
    tight = saw.weighted_line(xs, ys, [0.001] * 4)
    tighter = saw.weighted_line(xs, ys, [0.0001] * 4)
    assert tight.chi_squared_per_freedom > 1
    assert tight.error == pytest.approx(tighter.error)


@pytest.mark.parametrize("sigmas", [[0.1, 0.1], [0.1, 0.0, 0.1]])
def test_a_line_needs_three_points_with_errors(sigmas: list[float]) -> None:
    """Fewer points, or one that claims to be exact, is an error."""
    places = [float(i) for i in range(len(sigmas))]
    with pytest.raises(ValueError, match="at least 3 points"):
        saw.weighted_line(places, places, sigmas)


def test_the_same_seed_gives_the_same_walks() -> None:
    """And another seed gives others."""

    def first(seed: int) -> list[bytes]:
        return list(saw.sample(12, samples=5, interval=3, discard=20, seed=seed))

    assert first(1) == first(1)
    assert first(1) != first(2)


@pytest.mark.slow
def test_the_three_programs_end_in_an_exponent_near_the_literature(tmp_path: Path) -> None:
    """A small run of the real programs: every check passes, and nu is right."""
    sizes = ["--lengths", "10,20,40,80", "--samples", "800", "--interval", "20", "--seed", "5"]
    for arguments in (["sample", *sizes], ["measure", "walks.json"], ["fit", "sizes.json"]):
        done = saw_py(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    for name in ("walks.json", "sizes.json", "fit.json"):
        assert saw_py(tmp_path, "check", name).returncode == 0
    fit = json.loads((tmp_path / "fit.json").read_text())
    assert fit["nu"] == pytest.approx(0.5876, abs=0.03)
    assert "nu (end to end)" in (tmp_path / "fit.txt").read_text()
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kind": "fit", "nu": 0.5, "r_squared": 1.0}, "expected nu in [0.55, 0.62], found 0.5"),
        ({"kind": "fit", "nu": 0.6, "r_squared": 0.9}, "expected R^2 above 0.99, found 0.9"),
        ({"kind": "walks", "lengths": [3], "samples": 1, "series": []}, "of lengths [3], found []"),
        (
            {
                "kind": "walks",
                "lengths": [3],
                "samples": 2,
                "series": [{"length": 3, "walks": ["xXx"]}],
            },
            "1 walks are of another length or cross themselves",
        ),
        (
            {
                "kind": "sizes",
                "rows": [
                    {
                        "length": 9,
                        "end_to_end": {"mean": 1.0, "error": 0.5},
                        "gyration": {"mean": 1.0, "error": 0.01},
                    }
                ],
            },
            "N=9: end_to_end 1.0 +- 0.5: above 5%",
        ),
        (
            {
                "kind": "sizes",
                "rows": [
                    {
                        "length": 9,
                        "end_to_end": {"mean": 0.0, "error": 0.0},
                        "gyration": {"mean": 1.0, "error": 0.01},
                    }
                ],
            },
            "N=9: end_to_end 0.0 +- 0.0: above 5%",
        ),
    ],
)
def test_a_result_that_is_not_good_enough_is_refused(
    tmp_path: Path, content: dict[str, Any], reason: str
) -> None:
    """`check` leaves with 1 and says what was expected."""
    (tmp_path / "result.json").write_text(json.dumps(content))
    done = saw_py(tmp_path, "check", "result.json")
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr


def test_a_missing_file_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    """The stage's error log names the file."""
    done = saw_py(tmp_path, "measure", "walks.json")
    assert done.returncode == 1
    assert done.stderr.startswith("saw.py: ")
    assert "walks.json" in done.stderr


def test_the_plan_says_in_its_parameters_what_its_commands_do() -> None:
    """The science parameters of the record are those of the command line."""
    words = shlex.split(PLAN["stages"][0]["parameters"]["command"])
    given_ = saw.parser().parse_args(words[words.index("../scripts/saw.py") + 1 :])
    parameters = PLAN["stages"][0]["parameters"]
    for name in ("lengths", "samples", "interval", "discard", "seed"):
        assert getattr(given_, name) == parameters[name]


@pytest.mark.parametrize("stage", PLAN["stages"], ids=lambda stage: str(stage["id"]))
def test_every_command_of_the_plan_is_one_the_program_takes(stage: dict[str, Any]) -> None:
    """Command and verify parse, and the command reads nothing that is not declared."""
    parameters = stage["parameters"]
    for name, script in (("command", "../scripts/saw.py"), ("verify", "scripts/saw.py")):
        words = shlex.split(parameters[name])
        saw.parser().parse_args(words[words.index(script) + 1 :])
    read = {word[3:] for word in shlex.split(parameters["command"]) if word.startswith("../")}
    assert read == set(stage["inputs"])
