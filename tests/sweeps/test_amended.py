"""After an amendment of a sweep, its task folders match the new definition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.rounds import first
from tests.sweeps.support import amended, begun, lines, sweep

GRID = {"grid": {"T": [1, 2, 3], "L": [8, 16]}}
FEWER = {"grid": {"T": [2, 3], "L": [8, 16]}}
#: Shell command that fails for two of the six points until a certain file exists.
FAILS = '{{ [ "$WFCTL_PARAM_T" != 3 ] || [ -e {well} ] || exit 3; }}'


def _ended(place: Place, folder: Path, before: str) -> None:
    """Run the sweep until it has the status in which the test amends it."""
    if before == "completed":
        (folder / "well").touch()
    assert place.json("run").code == (0 if before == "completed" else 6)
    (folder / "well").touch()
    if before == "retried":
        place.done("stage", "retry", "stage-1", "--fix", "It was filled up.")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("also", first(["points alone", "all is changed"]))
@pytest.mark.parametrize("before", ["completed", "failed", "retried"])
def test_folders_of_removed_points_are_moved_aside(tmp_path: Path, before: str, also: str) -> None:
    """wfctl moves these folders away, so the next stage sees only tasks of the definition."""
    made = sweep(tmp_path / "trace", GRID, FAILS.format(well=tmp_path / "well"))
    place = begun(tmp_path, made)
    _ended(place, tmp_path, before)
    more = {"flavour": "new"} if also == "all is changed" else {}
    amended(place, map=FEWER, **more)
    place.done("run")
    names = sorted(path.name for path in (place.path / "stage-1/tasks").iterdir())
    assert names == ["L=16,T=2", "L=16,T=3", "L=8,T=2", "L=8,T=3"]
    kept = [path for path in place.path.rglob("L=8,T=1") if (path / "e.json").is_file()]
    assert len(kept) == 1, "what was computed is kept"


@pytest.mark.long
@pytest.mark.slow
def test_failed_task_does_not_keep_results_of_old_inputs(tmp_path: Path) -> None:
    """If a task fails with new inputs, wfctl still moves its folder of old results away."""
    command = '[ "$(cat ../../../in.txt)" != "$WFCTL_PARAM_T" ]'
    made = sweep(tmp_path / "trace", {"grid": {"T": [1, 2, 3]}}, command)
    place = begun(tmp_path, {**made, "inputs": ["in.txt"]})
    for bad, left in ((3, ["T=1", "T=2"]), (1, ["T=2", "T=3"])):
        (place.path / "in.txt").write_text(f"{bad}\n")
        assert place.json("run").code == 6
        assert sorted(path.name for path in (place.path / "stage-1/tasks").iterdir()) == left
        place.done("stage", "retry", "stage-1", "--fix", "The input was put right.")


@pytest.mark.slow
@pytest.mark.parametrize("status", ["completed", "failed"])
def test_impact_lists_changed_inputs_and_tasks_to_recompute(tmp_path: Path, status: str) -> None:
    """The amendment itself keeps all tasks, but a changed script makes them run again."""
    made = sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}, "bash ../../../run.sh")
    place = begun(tmp_path, {**made, "inputs": ["run.sh"]})
    script = place.path / "run.sh"
    script.write_text("[ $WFCTL_PARAM_T != 2 ]\n" if status == "failed" else "true\n")
    was, done = script.read_text(), 1 if status == "failed" else 2
    assert place.json("run").code == (6 if status == "failed" else 0)
    points = 'parameters.map={"grid": {"T": [1, 2, 3]}}'
    asked = ("--stage", "stage-1", "--reason", "Why.", "--set", points)
    script.write_text("true # otherwise\n")
    told = place.done("amend", "propose", "--dry-run", *asked)["impact"]
    assert told["changed_inputs"] == {"stage-1": ["run.sh"]}
    assert (told["tasks"]["stage-1"]["kept"], told["tasks"]["stage-1"]["computed"]) == (0, 3)
    script.write_text(was)
    told = place.done("amend", "propose", *asked)["impact"]
    assert told["changed_inputs"] == {}
    assert told["tasks"]["stage-1"]["kept"] == done
    script.write_text("true # otherwise\n")
    said = "run.sh: changed since the last attempt of stage-1 read it, so all its tasks run again"
    assert said in place.call("amend", "show", "amend-1").out
    place.done("amend", "approve", "amend-1")
    (tmp_path / "trace").unlink()
    place.done("run")
    assert lines(tmp_path / "trace") == ["T=1", "T=2", "T=3"]
