"""Replicates: each point of a sweep is computed several times, with a different seed each."""

from __future__ import annotations

import csv
import json
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from tests.cli.support import Place
from tests.sweeps.support import amended, begun, ends, sweep

#: Command that writes a number which depends on the seed of the task.
SEEDED = 'echo "{\\"e\\": $((WFCTL_SEED % 1000))}" > e.json'


def replicated(
    folder: Path, map_: dict[str, Any] | None = None, command: str = SEEDED, **parameters: Any
) -> Any:
    """Return a sweep of two points with three replicates each, whose tasks write ``e.json``."""
    map_ = {"grid": {"T": [1, 2]}, "replicates": 3} if map_ is None else map_
    trace = f'echo "$WFCTL_TASK" >> {folder / "trace"}'
    values = {"metrics": {"energy": {"at": "e.json#/e", "better": "lower"}}, **parameters}
    stage = sweep(folder / "trace", map_, **values)
    stage["parameters"]["command"] = f"{trace}; {command}"
    return stage


def table(place: Place, name: str = "tasks.csv") -> list[dict[str, str]]:
    """Return the rows of a table of the sweep."""
    return list(csv.DictReader((place.path / "stage-1" / name).read_text().splitlines()))


def numbers(place: Place) -> dict[str, list[float]]:
    """Return the numbers of all replicates, by the value of T, read from the tasks' own files."""
    found: dict[str, list[float]] = {}
    for row in table(place):
        number = json.loads((place.path / row["folder"] / "e.json").read_text())["e"]
        found.setdefault(row["T"], []).append(number)
    return found


def test_metrics_are_means_over_the_replicates_with_a_standard_error(tmp_path: Path) -> None:
    """The means and errors equal those computed by hand, everywhere that shows them."""
    place = begun(tmp_path, replicated(tmp_path))
    place.done("run")
    by_hand = {T: (fmean(n), stdev(n) / sqrt(len(n))) for T, n in numbers(place).items()}

    shown = place.done("metrics", "stage-1")["metrics"]
    written = table(place, "points.csv")

    for row in (*shown, *written):
        value, error = by_hand[str(row["T"])]
        assert float(row["energy"]) == pytest.approx(value)
        assert float(row["energy_error"]) == pytest.approx(error)
        assert int(row["replicates"]) == 3
    assert [row["key"] for row in shown] == [row["key"] for row in written] == ["T=1", "T=2"]
    plotted = place.done("metrics", "stage-1", "--plot", "energy")
    assert [point["error"] for line in plotted["lines"].values() for point in line] == [
        pytest.approx(error) for _, error in by_hand.values()
    ]


def test_result_is_the_best_mean(tmp_path: Path) -> None:
    """A result of the workflow is the mean of the best point, not the best replicate."""
    place = begun(tmp_path, replicated(tmp_path))
    place.done("run")

    (number,) = place.done("metrics")["metrics"]

    best = min((fmean(found), f"T={T}") for T, found in numbers(place).items())
    assert (number["value"], number["task"]) == (pytest.approx(best[0]), best[1])
    assert number["error"] > 0


def test_seeds_are_recorded_and_reproducible(tmp_path: Path) -> None:
    """A new computation of all tasks uses the seeds in the table again."""
    place = begun(tmp_path, replicated(tmp_path))
    place.done("run")
    first = {row["key"]: row["seed"] for row in table(place)}
    before = numbers(place)

    place.done("rerun", "stage-1", "--reason", "again")
    place.done("run")

    assert {row["key"]: row["seed"] for row in table(place)} == first
    assert len(set(first.values())) == len(first)
    assert numbers(place) == before


def test_more_replicates_compute_only_the_new_tasks(tmp_path: Path) -> None:
    """An amendment that adds replicates keeps the finished tasks."""
    place = begun(tmp_path, replicated(tmp_path))
    place.done("run")
    (tmp_path / "trace").unlink()

    amended(place, map={"grid": {"T": [1, 2]}, "replicates": 5})
    place.done("run")

    assert sorted(ends(tmp_path)) == [f"T={T},replicate={n}" for T in (1, 2) for n in (4, 5)]
    assert {row["replicates"] for row in table(place, "points.csv")} == {"5"}


def test_command_that_ignores_its_seed_is_named(tmp_path: Path) -> None:
    """The log, the tasks and the check of the plan say that the seed is not used."""
    stage = replicated(tmp_path)
    stage["parameters"]["command"] = 'echo "{\\"e\\": 1}" > e.json'
    place = begun(tmp_path, stage)
    advice = place.call("plan", "check", str(tmp_path / "plan.json"))
    place.done("run")

    notes = place.notes()

    assert "WFCTL_SEED, the seed of each replicate" in advice.out + advice.err
    (warning,) = notes
    assert warning == (
        "stage-1: all replicates of T=1 and 1 other point have identical results, so their error "
        "is 0. The command probably ignores its seed (the variable WFCTL_SEED)"
    )
    assert warning in place.call("-o", "text", "tasks", "stage-1").out


def test_follower_has_a_task_for_each_replicate(tmp_path: Path) -> None:
    """A sweep that uses the points of another one reads the result of the same replicate."""
    follower = sweep(tmp_path / "other", {"like": "stage-1"})
    follower |= {"id": "stage-2", "outputs": ["stage-2/points.csv"], "depends_on": ["stage-1"]}
    follower["inputs"] = ["stage-1/tasks.csv"]
    follower["outputs"] = ["stage-2/tasks.csv"]
    follower["parameters"]["command"] = 'cp "$WFCTL_LIKE_FOLDER/e.json" e.json'
    place = begun(tmp_path, replicated(tmp_path), follower)
    place.done("run")

    rows = place.done("metrics", "stage-2")["metrics"]

    assert [(row["key"], row["replicates"]) for row in rows] == [("T=1", 3), ("T=2", 3)]
    assert [row["energy"] for row in rows] == [
        pytest.approx(fmean(found)) for found in numbers(place).values()
    ]


def test_value_named_replicate_is_an_ordinary_value_without_the_option(tmp_path: Path) -> None:
    """A map whose own value is called ``replicate`` has one row for each task."""
    map_ = {"grid": {"T": [1], "replicate": [1, 2]}}
    command = 'echo "{\\"e\\": $WFCTL_PARAM_replicate}" > e.json'
    place = begun(tmp_path, replicated(tmp_path, map_, command))
    place.done("run")

    rows = place.done("metrics", "stage-1")["metrics"]

    assert [(row["replicate"], row["energy"]) for row in rows] == [(1, 1), (2, 2)]
    assert not (place.path / "stage-1/points.csv").exists()


@pytest.mark.parametrize(
    ("map_", "words"),
    [
        ({"grid": {"T": [1]}, "replicates": 1}, "expected a whole number from 2 to 10,000"),
        ({"grid": {"T": [1]}, "replicates": "5"}, "expected a whole number from 2 to 10,000"),
        ({"grid": {"T": [1], "seed": [1]}, "replicates": 2}, "Choose another name"),
        ({"grid": {"T": [1], "replicate": [1]}, "replicates": 2}, "Choose another name"),
        ({"like": "stage-0", "replicates": 2}, "a map with `like` cannot set replicates"),
        ({"grid": {"T": {"from": 1, "to": 20_000}}, "replicates": 9}, "Use fewer replicates"),
    ],
)
def test_unusable_replicates_are_refused(tmp_path: Path, map_: dict[str, Any], words: str) -> None:
    """The plan is refused with a message that says what to change."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "purpose": "p", "stages": [replicated(tmp_path, map_)]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))

    answer = place.call("plan", "check", str(tmp_path / "plan.json"))

    assert (answer.code, words in answer.err) == (1, True), answer


def test_loop_ends_when_the_relative_error_of_the_mean_is_small(tmp_path: Path) -> None:
    """The criterion reads the standard error of the best point's mean."""
    command = 'echo "{\\"e\\": $((100 + WFCTL_SEED % 7))}" > e.json; cp /dev/null next.csv'
    stage = replicated(tmp_path, command=command)
    loop = {
        "stages": ["stage-1"],
        "points": "stage-1",
        "ask": "agent",
        "each": 1,
        "at_most": 4,
        "tasks": 60,
        "until": {"metric": "stage-1.energy", "relative_error": 0.05},
        "within": {"T": {"from": 0, "to": 9}},
    }
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "purpose": "p", "stages": [stage], "rounds": {"search": loop}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    place.done("init", str(tmp_path / "plan.json"), "--consent", "trust")

    place.done("run")

    assert place.types()[-2:] == ["workflow.completed", "session.ended"]


#: Command that writes the tenfold of T plus the number of the replicate.
NUMBERED = 'echo "{\\"e\\": $((WFCTL_PARAM_T * 10 + WFCTL_PARAM_replicate))}" > e.json'


@pytest.mark.parametrize(
    ("condition", "keys"),
    [("energy>12.5", ["T=2"]), ("energy<13", ["T=1"]), ("energy_error<1", ["T=1", "T=2"])],
)
def test_conditions_select_points_by_their_means(
    tmp_path: Path, condition: str, keys: list[str]
) -> None:
    """A condition never selects some of a point's replicates, which would change its mean."""
    place = begun(tmp_path, replicated(tmp_path, command=NUMBERED))
    place.done("run")

    rows = place.done("metrics", "stage-1", "--where", condition)["metrics"]

    assert [row["key"] for row in rows] == keys
    assert [row["energy"] for row in rows] == [12 if key == "T=1" else 22 for key in keys]
    assert place.call("metrics", "stage-1", "--where", "replicate=1").code == 2


def test_point_with_one_finished_replicate_has_no_error_and_is_not_the_best(
    tmp_path: Path,
) -> None:
    """The error of a single value is unknown. Points with all replicates are chosen first."""
    fails = 'test "$WFCTL_TASK" != T=1,replicate=2 -a "$WFCTL_TASK" != T=1,replicate=3'
    stage = replicated(tmp_path, command=f"{fails} && {NUMBERED}", tolerate=0.5)
    place = begun(tmp_path, stage)
    place.done("run")

    answer = place.call("-o", "csv", "metrics", "stage-1")

    first, second = csv.DictReader(answer.out.splitlines())
    assert (first["key"], first["replicates"], first["energy_error"]) == ("T=1", "1", "")
    assert float(second["energy_error"]) > 0
    assert place.done("metrics")["metrics"][0]["task"] == "T=2"
