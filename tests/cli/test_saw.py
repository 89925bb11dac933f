"""The science of the demo: walks avoid themselves, and averages match exact values."""

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

from extensions.demo import saw

DEMO = Path(saw.__file__).parent
PLAN: dict[str, Any] = tomllib.loads((DEMO / "plan.toml").read_text(encoding="utf-8"))


def every_walk(length: int) -> list[bytes]:
    """Return every self-avoiding walk of a length by trying every sequence of steps."""
    walks = (bytes(steps) for steps in product(saw.STEPS, repeat=length))
    return [walk for walk in walks if saw.is_self_avoiding(walk)]


def saw_py(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a stage does."""
    command = [sys.executable, str(DEMO / "saw.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("length", "count", "squared"), [(1, 6, 6), (2, 30, 72), (3, 150, 582), (4, 726, 4032)]
)
def test_short_walks_match_published_counts_and_sizes(
    length: int, count: int, squared: int
) -> None:
    """The numbers are from Clisby, Liang and Slade, J. Phys. A 40, 10973 (2007)."""
    walks = every_walk(length)
    assert len(walks) == count
    assert sum(saw.squared_sizes(walk)[0] for walk in walks) == squared


@pytest.mark.parametrize("length", [2, 3, 4])
def test_sampled_averages_agree_with_exact_averages(length: int) -> None:
    """Both mean squares are within five standard errors of the average over all walks."""
    exact = zip(*map(saw.squared_sizes, every_walk(length)), strict=True)
    walks = saw.sample(length, samples=4000, interval=5, discard=50, seed=1)
    found = zip(*map(saw.squared_sizes, walks), strict=True)
    for values, series in zip(exact, found, strict=True):
        got = saw.estimate(series)
        assert abs(got.mean - math.fsum(values) / len(values)) < 5 * got.error


def test_chain_reaches_every_short_walk() -> None:
    """The Markov chain of pivots generates every self-avoiding walk of four steps."""
    reached = set(islice(saw.chain(4, random.Random(3)), 30_000))
    assert reached == set(every_walk(4))


@given(st.integers(2, 60), st.integers(0, 2**32))
def test_pivoted_walk_avoids_itself_and_keeps_its_length(length: int, seed: int) -> None:
    """After a hundred pivots, a walk still has its length and does not cross itself."""
    for walk in islice(saw.chain(length, random.Random(seed)), 100):
        place, visited = (0, 0, 0), {(0, 0, 0)}
        for step in walk:
            axis, sign = divmod(saw.STEPS.index(step), 2)
            place = tuple(c + (1 - 2 * sign) * (a == axis) for a, c in enumerate(place))  # type: ignore[assignment]
            visited.add(place)
        assert len(visited) == length + 1


def test_pivot_that_would_cross_is_refused() -> None:
    """Turning the end of a straight walk onto itself leaves the walk unchanged."""
    reverse = bytes.maketrans(b"xX", b"Xx")
    assert saw.pivot(b"xxx", 1, reverse) == b"xxx"


def test_symmetries_are_the_47_besides_the_identity() -> None:
    """All symmetries differ, and each maps opposite steps to opposite steps."""
    found = [saw.STEPS.translate(move) for move in saw.symmetries()]
    assert len(set(found)) == 47
    assert saw.STEPS not in found
    assert all(
        image[i : i + 2].swapcase() == image[i : i + 2][::-1] for image in found for i in (0, 2, 4)
    )


def test_sizes_of_short_walks_are_exact() -> None:
    """A straight walk of two steps has sizes 4 and 2/3, and a corner has sizes 2 and 4/9."""
    assert saw.squared_sizes(b"xx") == pytest.approx((4, 2 / 3))
    assert saw.squared_sizes(b"xy") == pytest.approx((2, 4 / 9))


def test_error_of_a_correlated_series_includes_its_correlation() -> None:
    """An autoregressive series with coefficient 0.8 has tau = 1/2 + 0.8/0.2 = 4.5."""
    rng, value, series = random.Random(7), 0.0, []
    for _ in range(40_000):
        value = 0.8 * value + rng.gauss(0, 1)
        series.append(value)
    found = saw.estimate(series)
    assert found.tau == pytest.approx(4.5, rel=0.15)
    assert abs(found.mean) < 5 * found.error


def test_constant_series_has_no_error() -> None:
    """The error is zero for walks of one step, which all have the same size."""
    assert saw.estimate([1.0, 1.0, 1.0]) == saw.Estimate(1.0, 0.0, 0.5)


def test_error_of_a_single_sample_is_refused() -> None:
    """The message states the number of samples."""
    with pytest.raises(ValueError, match=r"at least 2 samples.*has 1"):
        saw.estimate([1.0])


def test_exact_power_law_gives_its_exponent() -> None:
    """R^2 = 3 N^1.2 gives nu = 0.6 with R^2 = 1."""
    rows = [{"length": n, "e": {"mean": 3 * n**1.2, "error": 0.01 * n}} for n in (5, 10, 20, 40)]
    line = saw.exponent(rows, "e")
    assert (line.slope, line.r_squared) == pytest.approx((0.6, 1.0))


def test_error_grows_if_the_points_scatter_more_than_their_errors() -> None:
    """The fitted error follows from the scatter, even if the given errors are too small."""
    xs, ys = [0.0, 1.0, 2.0, 3.0], [0.0, 1.1, 1.9, 3.0]
    tight = saw.weighted_line(xs, ys, [0.001] * 4)
    tighter = saw.weighted_line(xs, ys, [0.0001] * 4)
    assert tight.chi_squared_per_freedom > 1
    assert tight.error == pytest.approx(tighter.error)


@pytest.mark.parametrize("sigmas", [[0.1, 0.1], [0.1, 0.0, 0.1]])
def test_line_needs_three_points_with_errors(sigmas: list[float]) -> None:
    """A fit to fewer points, or with a point of zero error, raises an error."""
    places = [float(i) for i in range(len(sigmas))]
    with pytest.raises(ValueError, match="at least 3 points"):
        saw.weighted_line(places, places, sigmas)


def test_same_seed_gives_the_same_walks() -> None:
    """The same seed gives the same walks, and another seed gives other walks."""

    def first(seed: int) -> list[bytes]:
        return list(saw.sample(12, samples=5, interval=3, discard=20, seed=seed))

    assert first(1) == first(1)
    assert first(1) != first(2)


@pytest.mark.slow
def test_three_programs_find_the_exponent_of_the_literature(tmp_path: Path) -> None:
    """In a small run, every check of the demo passes and nu has the published value."""
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
def test_check_refuses_an_insufficient_result(
    tmp_path: Path, content: dict[str, Any], reason: str
) -> None:
    """`check` exits with code 1 and states what was expected."""
    (tmp_path / "result.json").write_text(json.dumps(content))
    done = saw_py(tmp_path, "check", "result.json")
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr


def test_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    """The error log of the stage names the file and has no traceback."""
    done = saw_py(tmp_path, "measure", "walks.json")
    assert done.returncode == 1
    assert done.stderr.startswith("saw.py: ")
    assert "walks.json" in done.stderr


def test_plan_parameters_match_its_commands() -> None:
    """The science parameters in the demo plan equal those in its command lines."""
    words = shlex.split(PLAN["stages"][0]["parameters"]["command"])
    given_ = saw.parser().parse_args(words[words.index("../scripts/saw.py") + 1 :])
    parameters = PLAN["stages"][0]["parameters"]
    for name in ("lengths", "samples", "interval", "discard", "seed"):
        assert getattr(given_, name) == parameters[name]


@pytest.mark.parametrize("stage", PLAN["stages"], ids=lambda stage: str(stage["id"]))
def test_program_accepts_every_command_of_the_plan(stage: dict[str, Any]) -> None:
    """The program accepts each command of the plan, and reads only declared inputs."""
    parameters = stage["parameters"]
    for name, script in (("command", "../scripts/saw.py"), ("verify", "scripts/saw.py")):
        words = shlex.split(parameters[name])
        saw.parser().parse_args(words[words.index(script) + 1 :])
    read = {word[3:] for word in shlex.split(parameters["command"]) if word.startswith("../")}
    assert read == set(stage["inputs"])
