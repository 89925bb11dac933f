"""Change a stage of a loop from a given round on (`--from-round`), or for all rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.built_once import built_once
from tests.cli.support import Place, write_plan
from tests.sweeps.looped import amended, give, looped, plan, points_of_rounds
from tests.sweeps.support import lines

#: Criterion to end the loop. Its metric is the number of proposals so far.
UNTIL = {"metric": "next.best", "below": 0}


@built_once
def _walked(folder: Path, at_most: int = 3) -> Place:
    """Return a loop that ended after three rounds: points 0 and 50, then 1, then 2 and 3."""
    place = looped(folder, "x\n1\n", "x\n2\n3\n", "x\n4\n", at_most=at_most, until=UNTIL)
    place.done("run")
    assert points_of_rounds(place) == [[1], [2, 3]][: at_most - 1]
    _trace(place).unlink()
    return place


def _trace(place: Place) -> Path:
    """Return the trace file, to which each computed task adds a line."""
    return place.path.parent / "trace"


@pytest.mark.long
@pytest.mark.slow
def test_change_from_a_round_keeps_earlier_rounds(tmp_path: Path) -> None:
    """wfctl recomputes the tasks of the given and later rounds, and keeps earlier results."""
    place = _walked(tmp_path)
    before = (place.path / "run/tasks/x=1/f.json").stat().st_ino
    shown = amended(place, "--stage", "run", "--set", "parameters.n=2", "--from-round", "3")
    assert shown["impact"]["tasks"]["run"]["kept"] == 3
    assert shown["impact"]["tasks"]["run"]["computed"] == 2
    tasks = place.done("status")["stages"][0]["tasks"]
    assert (tasks["done"], tasks["waiting"]) == (3, 2)
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=2", "x=3"]
    assert (place.path / "run/tasks/x=1/f.json").stat().st_ino == before
    assert sorted(one.name for one in (place.path / "run.v1/tasks").iterdir()) == ["x=2", "x=3"]
    rounds = place.done("round", "show", "walk")["rounds"]
    assert [one["counts"] for one in rounds] == [True, True, True]


@pytest.mark.long
@pytest.mark.slow
def test_change_from_a_round_keeps_tolerated_failures_of_earlier_rounds(tmp_path: Path) -> None:
    """A tolerated failed task of an earlier round is kept and does not run again."""
    given = plan(tmp_path, at_most=2, until=UNTIL)
    parameters = given["stages"][0]["parameters"]
    tried = f'echo "$WFCTL_TASK" >> {tmp_path}/tried; [ $WFCTL_PARAM_x != 50 ] || exit 1; '
    parameters |= {"command": tried + parameters["command"], "tolerate": 0.5}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    for number, text in enumerate(("x\n1\n", "x\n2\n", "x\n3\n"), 1):
        give(tmp_path, number, text)
    place.done("run")
    for number in (2, 3):
        words = ("--stage", "run", "--set", f"parameters.n={number}", "--from-round", "2")
        (tmp_path / "tried").unlink()
        told = amended(place, *words)["impact"]["tasks"]["run"]
        assert (told["kept"], told["computed"]) == (2, 1)
        place.done("run")
        assert lines(tmp_path / "tried") == ["x=1"]
        assert place.done("tasks", "run")["counts"]["failed"] == 1
    amended(place, "--set", "rounds.walk.at_most=3")
    place.done("run")
    assert lines(tmp_path / "tried") == ["x=1", "x=2"]


@pytest.mark.long
@pytest.mark.slow
def test_change_without_a_round_recomputes_all_rounds(
    tmp_path: Path,
) -> None:
    """Numbers of the earlier definition no longer count for the loop's criterion."""
    place = _walked(tmp_path)
    amended(place, "--stage", "run", "--set", "parameters.n=2")
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=0", "x=1", "x=2", "x=3", "x=50"]
    rounds = place.done("round", "show", "walk")["rounds"]
    assert [one["counts"] for one in rounds] == [False, False, True]
    assert "by an earlier definition" in place.call("round", "show", "walk").out
    amended(place, "--set", 'rounds.walk.until={"metric": "next.best", "below": 2.5}')
    assert place.done("round", "show", "walk")["over"] == "its limit of 3 rounds"


@pytest.mark.long
@pytest.mark.slow
def test_second_change_keeps_results_of_the_first_change(tmp_path: Path) -> None:
    """Rounds before the second `--from-round` keep the results of the first change."""
    place = _walked(tmp_path)
    amended(place, "--stage", "run", "--set", "parameters.n=2", "--from-round", "2")
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=1", "x=2", "x=3"]
    amended(place, "--stage", "run", "--set", "parameters.n=3", "--from-round", "3")
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=1", "x=2", "x=2", "x=3", "x=3"]
    amended(place, "--stage", "run", "--type", "stage_rerun", "--from-round", "3")
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=1", *["x=2"] * 3, *["x=3"] * 3]
    amended(place, "--stage", "run", "--set", "parameters.n=1")
    place.done("run")
    assert len(lines(_trace(place))) == 7 + 5
    assert place.call("fsck", "--protocol").code == 0
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--stage", "run", "--from-round", "9"), "expected 2 to 3, found 9"),
        (("--stage", "tell", "--from-round", "2"), "of one stage in a loop"),
        (("--from-round", "2"), "of one stage in a loop"),
    ],
)
@pytest.mark.slow
def test_invalid_from_round_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """wfctl refuses an invalid round or stage and records no proposal."""
    place = _walked(tmp_path)
    change = "parameters.n=2" if "--stage" in words else "rounds.walk.at_most=9"
    refused = place.json("amend", "propose", "--set", change, "--reason", "Others.", *words)
    assert refused.code == 5
    assert said in refused.out
    assert place.done("events", "--type", "amendment.proposed") == []


@pytest.mark.long
@pytest.mark.slow
def test_changed_command_from_a_round_keeps_earlier_rounds(tmp_path: Path) -> None:
    """With `--from-round`, a new command applies only to tasks of this and later rounds."""
    place = _walked(tmp_path)
    command = f'echo "{{\\"f\\": 9}}" > f.json; echo "$WFCTL_TASK anew" >> {_trace(place)}'
    amended(place, "--stage", "run", "--set", f"parameters.command={command}", "--from-round", "3")
    place.done("run")
    assert sorted(lines(_trace(place))) == ["x=2 anew", "x=3 anew"]


#: Changes that are refused together with `--from-round`, each with a part of the error.
UNFIT = [
    ('parameters.map={"points": [{"x": 0}, {"x": 60}]}', "parameters.map: cannot change together"),
    ('parameters.task_outputs=["f.json", "g"]', "parameters.task_outputs: cannot change together"),
    ('inputs=["more.txt"]', "inputs: cannot change together"),
    ('parameters.task_verify="test -s f.json"', "the change only checks results"),
]


@pytest.mark.long
@pytest.mark.slow
def test_change_that_affects_earlier_rounds_is_refused_with_from_round(tmp_path: Path) -> None:
    """wfctl refuses changes of the points, inputs, outputs or checks of a sweep."""
    place = _walked(tmp_path, at_most=2)
    for change, said in UNFIT:
        words = ("--stage", "run", "--set", change, "--from-round", "2", "--reason", "Others.")
        refused = place.json("amend", "propose", *words)
        assert refused.code == 5
        assert said in refused.out
    other = ("--set", "backend=nowhere", "--from-round", "2", "--reason", "Others.")
    assert "computes nothing" not in place.call("amend", "propose", "--stage", "run", *other).err


def test_from_round_is_refused_for_a_follower_of_the_sweep(tmp_path: Path) -> None:
    """Rounds add points to the sweep, not to its follower, so the option makes no sense."""
    known = plan(tmp_path)
    second = {"command": "true", "map": {"like": "run"}}
    known["stages"].insert(
        1,
        {
            "id": "more",
            "name": "More",
            "depends_on": ["run"],
            "outputs": ["more/tasks.csv"],
            "parameters": second,
        },
    )
    known["stages"][2]["depends_on"] = ["more", "run"]
    known["rounds"]["walk"]["stages"] = ["run", "more", "next"]
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, known)), "--consent", "trust")
    words = ("--stage", "more", "--set", "parameters.n=2", "--from-round", "2", "--reason", "Why.")
    refused = place.json("amend", "propose", *words)
    assert refused.code == 5
    assert "the rounds of walk add no points to the map of more" in refused.out


@pytest.mark.slow
def test_mandate_does_not_cover_from_round(tmp_path: Path) -> None:
    """A change with `--from-round` waits for a person; without it, the mandate approves."""
    place = _walked(tmp_path, at_most=2)
    bounds = {"stages": ["run", "next", "tell"], "values": {"run.parameters.n": [1, 2]}}
    given = str(write_plan(tmp_path, {**bounds, "amendments": 9}, "mandate.json"))
    place.done("mandate", "grant", "walker", given, "--reason", "Others.")
    words = ("amend", "propose", "--stage", "run", "--reason", "Why.", "--set", "parameters.n=2")
    waits = place.done(*words, "--from-round", "2")
    assert waits["amendment"]["status"] == "proposed"
    place.done("amend", "reject", waits["amendment"]["id"])
    assert place.done(*words)["amendment"]["status"] == "approved"
