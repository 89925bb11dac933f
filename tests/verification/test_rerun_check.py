"""``wfctl rerun --check``: a completed stage is computed once more beside its results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, tree, wfctl, write_plan
from tests.sweeps.support import begun, ends, sweep

#: Number of the computation: 1 for the first run of the command, 2 for the second.
COUNTED = "echo >> {trace}; n=$(wc -l < {trace})"


def stage(folder: Path, number: str, name: str = "stage-1", **parameters: Any) -> dict[str, Any]:
    """Return a stage that writes ``number``, which may contain ``$n``, the number of the run."""
    command = f'{COUNTED.format(trace=folder / name)}; echo "{number}" > n.json'
    values = {"command": command, "metrics": {"n": "n.json#/n"}, **parameters}
    return {"id": name, "name": "Number", "outputs": [f"{name}/n.json"], "parameters": values}


def completed(folder: Path, *stages: dict[str, Any]) -> Place:
    """Create a workflow, run all its stages, and return its root."""
    place = begun(folder, *stages)
    place.done("run")
    return place


def results(place: Place) -> dict[str, str]:
    """Return the digests of all files of the workflow outside ``.wfctl``, except the two views."""
    views = ("progress.log", "workflow-state.json")
    found = tree(place.path).items()
    return {k: v for k, v in found if not k.startswith((".wfctl", *views))}


ERROR = {"at": "n.json#/n", "error": "#/e"}


@pytest.mark.parametrize(
    ("number", "metric", "code", "words"),
    [
        ('{\\"n\\": 5}', "n.json#/n", 0, "n: 5, the same again"),
        ('{\\"n\\": $n, \\"e\\": 1}', ERROR, 0, "agrees (0.7 σ)"),
        ('{\\"n\\": ${n}0, \\"e\\": 1}', ERROR, 7, "does not agree (7.1 σ)"),
        ('{\\"n\\": $n}', "n.json#/n", 0, "no error is known; both together give 1.50 ± 0.50"),
    ],
)
def test_numbers_are_compared_by_their_errors(
    tmp_path: Path, number: str, metric: Any, code: int, words: str
) -> None:
    """The answer says whether each number agrees, the log records it, and no result changes."""
    place = completed(tmp_path, stage(tmp_path, number, metrics={"n": metric}))
    before = results(place)

    answer = place.call("rerun", "stage-1", "--check")

    assert (answer.code, words in answer.out) == (code, True), answer
    assert place.notes()[-1].startswith("stage-1 was computed once more: ")
    assert results(place) == before
    assert len((tmp_path / "stage-1").read_text().splitlines()) == 2
    # The folder is kept only if a person may want to know why the numbers differ.
    kept = code != 0 or "no error is known" in words
    assert (place.path / ".wfctl/checks").exists() == kept


@pytest.mark.long
def test_sweep_is_compared_point_by_point(tmp_path: Path) -> None:
    """All tasks run once more, and each point's number is compared."""
    place = completed(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2, 3]}}))

    (check,) = place.done("rerun", "stage-1", "--check")["checks"]

    assert [one["name"] for one in check["numbers"]] == [f"energy at T={T}" for T in (1, 2, 3)]
    assert (check["agree"], check["differ"], check["unknown"]) == (3, 0, 0)
    assert len(list(ends(tmp_path))) == 6


def test_later_stage_is_computed_alone_from_the_recorded_inputs(tmp_path: Path) -> None:
    """The stages before it are not computed again, and `wfctl list` does not show the check."""
    later = stage(tmp_path, '{\\"n\\": $(wc -c < ../stage-1/n.json)}', "stage-2")
    later |= {"depends_on": ["stage-1"], "inputs": ["stage-1/n.json"]}
    later["parameters"]["verify"] = "test -s stage-1/n.json"
    place = completed(tmp_path, stage(tmp_path, '{\\"n\\": 5}'), later)

    (check,) = place.done("rerun", "stage-2", "--check")["checks"]

    assert (check["agree"], check["differ"]) == (1, 0)
    assert len((tmp_path / "stage-1").read_text().splitlines()) == 1
    assert "checks" not in place.call("list").out


@pytest.mark.parametrize("name", ["in.txt", "script.sh"])
def test_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    """A check with another input compares nothing, and a changed script is not approved."""
    one = stage(tmp_path, '{\\"n\\": 5}') | {"inputs": ["in.txt"]}
    one["parameters"]["verify"] = "bash script.sh"
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "in.txt").write_text("1\n")
    (tmp_path / "root" / "script.sh").write_text("true\n")
    place = completed(tmp_path, one)
    (place.path / name).write_text("false\n")

    answer = place.json("rerun", "stage-1", "--check")

    assert answer.error["code"] == "not_computable_again"
    assert f"the file {name}, which it reads, has changed" in answer.error["message"]


def test_unapproved_init_script_does_not_run(tmp_path: Path) -> None:
    """A file `init.sh` that was created after the approval is not part of the check."""
    place = completed(tmp_path, stage(tmp_path, '{\\"n\\": 5}'))
    (place.path / "init.sh").write_text(f"touch {tmp_path / 'ran'}\n")

    place.done("rerun", "stage-1", "--check")

    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("ran", [True, False])
def test_stage_without_numbers_is_refused(tmp_path: Path, *, ran: bool) -> None:
    """A stage that is not completed, or has no metrics, has no numbers to compare."""
    one = stage(tmp_path, '{\\"n\\": 5}')
    if ran:
        del one["parameters"]["metrics"]
    place = completed(tmp_path, one) if ran else begun(tmp_path, one)

    answer = place.json("rerun", "stage-1", "--check")

    assert answer.error["code"] == "not_computable_again", answer
    assert not (place.path / ".wfctl" / "checks").exists()


@pytest.mark.long
def test_killed_check_continues_in_the_same_folder(tmp_path: Path) -> None:
    """The job of a killed check goes on, and the next check waits for it and compares."""
    slow = stage(tmp_path, '{\\"n\\": 5}')
    slow["parameters"]["command"] = (
        f"test ! -e {tmp_path / 'again'} || sleep 8; " + slow["parameters"]["command"]
    )
    place = completed(tmp_path, slow)
    (tmp_path / "again").touch()
    line = [sys.executable, "-m", "cli.main", "--root", str(place.path), "rerun", "stage-1"]
    killed = subprocess.Popen([*line, "--check"], cwd=HERE, start_new_session=True)
    while not list(place.path.glob(".wfctl/checks/*/stage-1/.attempts/*/job-*.started")):
        time.sleep(0.1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    answer = wfctl("--root", str(place.path), "rerun", "stage-1", "--check")

    assert (answer.code, "the same again" in answer.out) == (0, True), answer
    assert f"in {place.path}/.wfctl/checks/stage-1-1" in answer.err
    assert not (place.path / ".wfctl/checks").exists()
    assert len((tmp_path / "stage-1").read_text().splitlines()) == 2


@pytest.mark.long
def test_check_keeps_folders_that_wfctl_did_not_create(tmp_path: Path) -> None:
    """Only the folder of the check is deleted, even if the same stage is named twice."""
    place = completed(tmp_path, stage(tmp_path, '{\\"n\\": 5}'))
    own = place.path / ".wfctl/checks/stage-1-1"
    own.mkdir(parents=True)
    (own / "notes.md").write_text("by hand")

    checks = place.done("rerun", "stage-1", "stage-1", "--check")["checks"]

    assert [(check["agree"], check["folder"]) for check in checks] == [(1, None), (1, None)]
    assert [one.name for one in own.parent.iterdir()] == ["stage-1-1"]
    assert [one.name for one in own.iterdir()] == ["notes.md"]


def test_plan_without_a_stage_is_refused(tmp_path: Path) -> None:
    """The option needs the id of a stage."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "purpose": "p", "stages": [stage(tmp_path, "1")]}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")

    assert place.call("rerun", "--check").code == 2


def test_stage_that_uses_a_parameter_of_the_plan_is_computed_again(tmp_path: Path) -> None:
    """The workflow of the check has the parameters of the plan."""
    one = stage(tmp_path, '{\\"n\\": $WFCTL_PARAM_size}', use=["size"])
    plan = {"workflow_id": "w", "purpose": "p", "stages": [one], "parameters": {"size": 7}}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    place.done("run")

    (check,) = place.done("rerun", "stage-1", "--check")["checks"]

    assert (check["agree"], check["numbers"][0]["again"]) == (1, 7)


@pytest.mark.long
def test_failed_check_is_followed_by_a_new_one(tmp_path: Path) -> None:
    """The first check names the folder with the cause, and the next one starts again."""
    broken = tmp_path / "broken"
    one = stage(tmp_path, '{\\"n\\": 5}')
    one["parameters"]["command"] = f"test ! -e {broken} && {{ {one['parameters']['command']}; }}"
    place = completed(tmp_path, one)

    broken.touch()
    failed = place.call("rerun", "stage-1", "--check")
    broken.unlink()
    again = place.call("rerun", "stage-1", "--check")

    assert (failed.code, "checks/stage-1-1 status`" in failed.out) == (7, True), failed
    assert (again.code, "the same again" in again.out) == (0, True), again
    assert [one.name for one in (place.path / ".wfctl/checks").iterdir()] == ["stage-1-1"]


@pytest.mark.long
def test_check_of_a_follower_names_the_sweep_that_is_computed_first(tmp_path: Path) -> None:
    """A follower needs the results of the sweep whose points it uses."""
    follower = sweep(tmp_path / "other", {"like": "stage-1"})
    follower |= {"id": "stage-2", "outputs": ["stage-2/tasks.csv"], "depends_on": ["stage-1"]}
    follower["inputs"] = ["stage-1/tasks.csv"]
    place = completed(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}), follower)

    planned = place.done("rerun", "stage-2", "--check", "--dry-run")["stages"]
    (check,) = place.done("rerun", "stage-2", "--check")["checks"]

    assert planned == ["stage-1", "stage-2"]
    assert (check["agree"], check["differ"]) == (2, 0)
