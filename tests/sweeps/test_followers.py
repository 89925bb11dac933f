"""A follower (a stage with one task per task of a sweep) recomputes only what it must.

Each task of the follower depends only on its partner task in the sweep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Place, write_plan
from tests.sweeps.looped import amended, give, plan
from tests.sweeps.support import lines

#: Each task writes two random numbers. If a number has changed, the task was computed again.
_RANDOM = (
    'cat "${{WFCTL_LIKE_FOLDER:?}}"/* > /dev/null; echo "{{\\"r\\": $RANDOM$RANDOM}}" > r.json; '
    'echo "$WFCTL_TASK" >> {trace}'
)
FIRST = ["x=0", "x=50"]


def _follower(folder: Path, id_: str, partner: str) -> dict[str, Any]:
    return {
        "id": id_,
        "name": id_.title(),
        "depends_on": [partner],
        "inputs": [f"{partner}/tasks.csv"],
        "outputs": [f"{id_}/tasks.csv"],
        "parameters": {
            "command": _RANDOM.format(trace=folder / id_),
            "map": {"like": partner},
            "task_outputs": ["r.json"],
            "metrics": {"r": "r.json#/r"},
            "verify": "true",
        },
    }


def followed(folder: Path, *rounds: str, **loop: Any) -> Place:
    """Create a loop with a sweep, a follower, a follower of the follower, and a proposer."""
    given = plan(folder, is_last=True, at_most=len(rounds) + 1, **loop)
    given["stages"][1:1] = [_follower(folder, "go", "run"), _follower(folder, "more", "go")]
    given["stages"][3] |= {"depends_on": ["more"], "inputs": ["more/tasks.csv"]}
    given["rounds"]["walk"]["stages"] = ["run", "go", "more", "next"]
    place = Place(folder / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(folder, given)), "--consent", "trust")
    for number, text in enumerate((*rounds, "x\n99\n"), 1):
        give(folder, number, text)
    return place


@built_once
def _computed_once(folder: Path) -> Place:
    """Return a loop after its only round, with all tasks computed."""
    place = followed(folder)
    place.done("run")
    return place


def numbers(place: Place, stage: str) -> dict[str, float]:
    """Return the random number of each task of a follower, by the key of the task."""
    tasks = place.done("tasks", stage)["tasks"]
    return {task["key"]: task["metrics"]["r"] for task in tasks}


def cleared(folder: Path) -> None:
    """Delete the trace files, which list the tasks that ended."""
    for name in ("trace", "go", "more"):
        (folder / name).unlink(missing_ok=True)


def computed(folder: Path) -> list[list[str]]:
    """Return the tasks in the trace files of the sweep and its two followers."""
    return [lines(folder / name) for name in ("trace", "go", "more")]


@pytest.mark.long
@pytest.mark.slow
def test_follower_computes_each_task_once_in_a_loop(tmp_path: Path) -> None:
    """In each round, both followers compute only the new points of the sweep."""
    place = followed(tmp_path, "x\n1\n2\n", "x\n3\n4\n", tasks=100)
    assert "computed again" not in place.call("run").err
    every = sorted(f"x={n}" for n in (0, 50, 1, 2, 3, 4))
    assert computed(tmp_path) == [every] * 3
    starts = place.done("events", "--type", "attempt.started")
    told = [one["data"].get("tasks") for one in starts if one["data"]["stage"] in ("go", "more")]
    assert told == [2] * 6
    assert place.done("verify", "--deep") is not None


@pytest.mark.long
def test_added_point_computes_one_task_of_each_follower(tmp_path: Path) -> None:
    """The amendment's impact announces this; a point with another value is a new point."""
    place = _computed_once(tmp_path)
    folder = place.path.parent
    assert computed(folder) == [FIRST] * 3
    before = {stage: numbers(place, stage) for stage in ("go", "more")}
    for points, new in (([0, 50, 1], "x=1"), ([0, 50, 2], "x=2")):
        cleared(folder)
        text = ", ".join(f'{{"x": {n}}}' for n in points)
        change = f'parameters.map={{"points": [{text}]}}'
        shown = amended(place, "--stage", "run", "--set", change)["impact"]["tasks"]
        assert {id_: (one["kept"], one["computed"]) for id_, one in shown.items()} == {
            "run": (2, 1),
            "go": (2, 1),
            "more": (2, 1),
        }
        place.done("run")
        assert computed(folder) == [[new]] * 3
        for stage, known in before.items():
            found = numbers(place, stage)
            assert {*found} == {"x=0", "x=50", new}
            assert known.items() <= found.items()
    kept = {path.name for path in (place.path / "go.v2/tasks").iterdir()}
    assert kept == {"x=1"}


@pytest.mark.long
@pytest.mark.slow
def test_recomputed_points_recompute_their_followers(tmp_path: Path) -> None:
    """With `--from-round 2`, wfctl recomputes only the tasks of the second round."""
    place = followed(tmp_path, "x\n1\n")
    command = 'echo "{\\"f\\": $RANDOM$RANDOM}" > f.json; echo "$WFCTL_TASK" >> ' + str(
        tmp_path / "trace"
    )
    place.done("run")
    cleared(tmp_path)
    before = {stage: numbers(place, stage) for stage in ("go", "more")}
    words = ("--stage", "run", "--set", f"parameters.command={command}", "--from-round", "2")
    shown = amended(place, *words)["impact"]["tasks"]
    assert [(shown[id_]["kept"], shown[id_]["computed"]) for id_ in ("run", "go", "more")] == [
        (2, 1)
    ] * 3
    place.done("run")
    assert computed(tmp_path) == [["x=1"]] * 3
    for stage, known in before.items():
        found = numbers(place, stage)
        assert [key for key in known if found[key] != known[key]] == ["x=1"]


@pytest.mark.long
@pytest.mark.slow
def test_changed_sweep_command_recomputes_all_followers(tmp_path: Path) -> None:
    """A change of a follower recomputes only this follower and the follower after it."""
    place = _computed_once(tmp_path)
    folder = place.path.parent
    cleared(folder)
    amended(place, "--stage", "run", "--set", "parameters.n=2")
    place.done("run")
    assert computed(folder) == [FIRST] * 3
    cleared(folder)
    amended(place, "--stage", "go", "--set", "parameters.n=2")
    place.done("run")
    assert computed(folder) == [[], FIRST, FIRST]


@pytest.mark.long
@pytest.mark.slow
def test_follower_keeps_results_when_attempt_folders_are_lost(tmp_path: Path) -> None:
    """The marker file in a task folder has the digest of the partner's result it used."""
    place = _computed_once(tmp_path)
    folder = place.path.parent
    before = numbers(place, "go")
    for stage in ("go", "more"):
        (place.path / stage / ".attempts").rename(folder / f"{stage}.attempts")
    cleared(folder)
    change = 'parameters.map={"points": [{"x": 0}, {"x": 50}, {"x": 1}]}'
    amended(place, "--stage", "run", "--set", change)
    place.done("run")
    assert computed(folder) == [["x=1"]] * 3
    assert before.items() <= numbers(place, "go").items()
