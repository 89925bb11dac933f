"""wfctl detects damaged tables and task folders of a completed sweep, and restores tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.built_once import built_once
from tests.cli.support import Place
from tests.sweeps.support import begun, lines, sweep


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


@built_once
def _two_stages(folder: Path) -> Place:
    """Return a completed sweep, and a second stage that reads its table and was retried."""
    made = sweep(folder / "trace", {"points": [{"T": 1}, {"T": 2}]})
    second = {
        "id": "stage-2",
        "name": "Two",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/tasks.csv", "go.txt"],
        "outputs": ["stage-2/out.csv"],
        "parameters": {"command": "cp ../stage-1/tasks.csv out.csv", "verify": "true"},
    }
    place = begun(folder, made, second)
    assert place.json("run").code != 0
    (place.path / "go.txt").write_text("go\n")
    place.done("stage", "retry", "stage-2", "--fix", "The file is there.")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_cut, Path.unlink])
def test_damaged_table_is_restored_without_computation(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """`verify --restore` writes the table from the tasks, and keeps the damaged file."""
    place = _two_stages(tmp_path)
    table = place.path / "stage-1/tasks.csv"
    before = table.read_bytes()
    damage(table)
    advice = "`wfctl verify stage-1 --restore`"
    assert advice in place.call("verify").out
    assert advice in place.call("dispatch", "stage-2").err
    dry = place.json("verify", "--restore", "--dry-run")
    assert (dry.code, dry.data["restored"]) == (7, ["stage-1/tasks.csv"])
    assert not table.exists() or table.read_bytes() != before
    assert place.done("verify", "stage-1", "--restore")["restored"] == ["stage-1/tasks.csv"]
    assert table.read_bytes() == before
    kept = [*place.path.glob("stage-1/.attempts/*/kept/stage-1/tasks.csv")]
    assert len(kept) == (damage is _cut)
    place.done("run")
    assert lines(place.path.parent / "trace") == ["T=1", "T=2"]


@pytest.mark.slow
def test_table_is_not_restored_without_matching_tasks(tmp_path: Path) -> None:
    """Without the attempts' records, the tasks cannot reproduce the recorded table."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"points": [{"T": 1}]}))
    place.done("run")
    table = place.path / "stage-1/tasks.csv"
    table.write_text("key\n")
    (place.path / "stage-1/.attempts").rename(tmp_path / "attempts")
    answer = place.json("verify", "--restore")
    assert (answer.code, answer.data["restored"]) == (7, [])
    assert table.read_text() == "key\n"


def _swap(tasks: Path) -> None:
    (tasks / "T=1").rename(tasks / "other")
    (tasks / "T=2").rename(tasks / "T=1")
    (tasks / "other").rename(tasks / "T=2")


def _copy(tasks: Path) -> None:
    rmtree(tasks / "T=2")
    copytree(tasks / "T=1", tasks / "T=2")


def _edit(tasks: Path) -> None:
    (tasks / "T=2/e.json").write_text('{"e": 9}')


def _remove(tasks: Path) -> None:
    rmtree(tasks / "T=2")


@built_once
def _computed(folder: Path) -> Place:
    """Return a completed sweep of two tasks."""
    place = begun(folder, sweep(folder / "trace", {"points": [{"T": 1}, {"T": 2}]}))
    place.done("run")
    assert place.json("verify", "--deep").code == 0
    return place


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_swap, _copy, _edit, _remove])
def test_deep_verify_names_damaged_task_folders(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """`verify --deep` finds the damage although the table of the sweep is unchanged."""
    place = _computed(tmp_path)
    damage(place.path / "stage-1/tasks")
    answer = place.json("verify", "--deep")
    assert answer.code == 7
    found = {(one["path"], one["kind"]) for one in answer.data["found"]}
    kind = "missing" if damage is _remove else "changed"
    assert ("stage-1/tasks/T=2/e.json", kind) in found
    is_other_task = damage in (_swap, _copy)
    assert (("stage-1/tasks/T=2/.wfctl-done", "changed") in found) == is_other_task
