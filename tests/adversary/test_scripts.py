"""The files that a definition runs: a change of one is told, or refused where they are pinned."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Place

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "session_config": {"session_budget": 100},
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "inputs": ["build.py"],
            "outputs": ["stage-1/out.txt"],
            "parameters": {
                "command": "echo $WFCTL_PARAM_n > out.txt",
                "verify": "bash check.sh",
                "n": 1,
            },
        },
        {
            "id": "stage-2",
            "name": "Look",
            "depends_on": ["stage-1"],
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": "echo 2 > out.txt"},
        },
    ],
}
FILES = ("build.py", "check.sh", "init.sh")


def begun(folder: Path, **config: Any) -> Place:
    """Make a workflow whose scripts do nothing and end well."""
    root = folder / "root"
    plan = {**PLAN, "session_config": {**PLAN["session_config"], **config}}
    root.mkdir()
    for name in FILES:
        (root / name).write_text("exit 0\n")
    return make_in(root, plan)


def make_in(root: Path, plan: dict[str, Any]) -> Place:
    """Make a workflow in a folder that is there."""
    from tests.cli.support import call, write_plan

    source = write_plan(root.parent, plan)
    answer = call("--root", str(root), "init", str(source), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(root)


def told(place: Place) -> str:
    """Return the warnings that `status` prints."""
    found: list[str] = place.done("status")["consent"]["warnings"]
    return "\n".join(found)


@pytest.mark.parametrize("way", ["init", "import"])
@pytest.mark.parametrize("name", FILES)
def test_a_script_that_was_changed_before_anything_ran_is_told(
    name: str, way: str, tmp_path: Path
) -> None:
    """It is known by its digest from the beginning on."""
    place = begun(tmp_path)
    if way == "import":
        shutil.rmtree(place.path / ".wfctl")
        place.done("import", str(place.path))
    assert "check.sh" not in told(place)
    (place.path / name).write_text("exit 1\n")
    assert f"{name}: not what it was when the workflow began" in told(place)


def test_a_file_that_the_command_of_a_sweep_names_is_told(tmp_path: Path) -> None:
    """From the folder of a task it is further to the root than from that of the stage."""
    command = "solve -in ../../../model.run -x $WFCTL_PARAM_x > out.txt"
    parameters = {"command": command, "map": {"grid": {"x": [1, 2]}}}
    sweep: dict[str, Any] = {"id": "stage-1", "name": "Solve", "parameters": parameters}
    sweep["outputs"] = ["stage-1/tasks.csv"]
    root = tmp_path / "root"
    root.mkdir()
    (root / "model.run").write_text("first\n")
    place = make_in(root, {"workflow_id": "sweep", "stages": [sweep]})
    (root / "model.run").write_text("second\n")
    assert "model.run: not what it was when the workflow began" in told(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_script_that_was_changed_under_a_completed_stage_is_told(
    name: str, tmp_path: Path
) -> None:
    """By its name, and since when; its digest was recorded as the attempt started."""
    place = begun(tmp_path)
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1", "--evidence", "looked at it")
    assert name not in told(place)
    (place.path / name).write_text("exit 0 # and more\n")
    assert f"{name}: not what it was when stage-1 att-0001 started" in told(place)
    assert name in place.call("run", "--dry-run").out or name in place.call("status").out


def test_a_script_that_was_changed_after_an_approval_is_told(tmp_path: Path) -> None:
    """What a person approved ran these files, and no others."""
    place = begun(tmp_path)
    place.propose(*LONGER)
    place.approve()
    (place.path / "check.sh").write_text("exit 0 # always\n")
    assert "check.sh: not what it was when a person last approved a change" in told(place)


def hidden(place: Place) -> None:
    """Say that the script is an output of another stage, as which nobody runs it."""
    place.done("stage", "outputs", "stage-2", "stage-2/out.txt", "check.sh")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["plan", "amendment", "hidden"])
def test_a_pinned_script_that_was_changed_does_not_run(way: str, name: str, tmp_path: Path) -> None:
    """Exit 6, until a person agrees to the files as they are."""
    place = begun(tmp_path, **({} if way == "amendment" else {"pin": "scripts"}))
    pinning = ("--set", "session_config.pin=scripts", "--reason", "what runs is agreed")
    if way == "amendment":
        place.propose(*pinning)
        place.approve()
    if way == "hidden":
        hidden(place)
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0
    (place.path / name).write_text("exit 0 # and more\n")
    for words in (("dispatch", "stage-1"), ("dispatch", "stage-1", "--dry-run"), ("run",)):
        answer = place.json(*words)
        assert answer.code == 6, answer
        assert "session_config.pin" in answer.out
        assert name in answer.out
    assert "attempt.started" not in place.types()
    said = place.propose(*pinning)
    assert name in json.dumps(said["amendment"]["changes"])
    place.approve(said["amendment"]["id"])
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0


def test_an_older_log_names_no_scripts(trusted: Place) -> None:
    """Its attempts and approvals are read, and nothing is told of files that were not recorded."""
    trusted.finish("stage-1")
    with sqlite3.connect(trusted.path / ".wfctl/events.db") as database:
        (text,) = database.execute(
            "SELECT body FROM events WHERE type = 'attempt.started'"
        ).fetchone()
    assert "scripts" in json.loads(text)["data"]
    assert "not what it was" not in told(trusted)


def test_a_script_that_is_gone_is_missing(tmp_path: Path) -> None:
    """It is no other file: no other exists."""
    place = begun(tmp_path)
    (place.path / "check.sh").unlink()
    assert "check.sh: missing, and there when the workflow began" in told(place)
    assert "not what it was" not in told(place)


@pytest.mark.slow
def test_what_the_job_wrote_itself_was_changed_by_nobody(tmp_path: Path) -> None:
    """A check that reads the job's log names it; a second run writes another log."""
    stage = {
        "id": "stage-1",
        "name": "Run",
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": "echo ran $(date +%s%N) | tee run.dat; echo 1 > out.txt",
            "verify": "grep -q ran stage-1/log && test -s stage-1/run.dat && test -s own.sh",
        },
    }
    (tmp_path / "root").mkdir()
    (tmp_path / "root/own.sh").write_text("exit 0\n")
    place = make_in(tmp_path / "root", {"workflow_id": "w", "stages": [stage]})
    place.done("run")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "x")
    place.done("amend", "approve", "amend-1")
    place.done("run")
    assert "not what it was" not in told(place)
    (place.path / "own.sh").write_text("exit 1\n")
    (place.path / "stage-1/run.dat").write_text("by hand\n")
    assert "own.sh, stage-1/run.dat: not what it was when a person" in told(place)


@pytest.mark.slow
def test_a_log_that_a_check_reads_is_no_other_verdict(tmp_path: Path) -> None:
    """Each try writes its own log: the check that reads it is the same, whatever was pinned."""
    stage = {
        "id": "stage-1",
        "name": "Run",
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": "echo ran $(date +%s%N); echo 1 > out.txt",
            "verify": "grep -q ran stage-1/log && test -e good",
        },
    }
    (tmp_path / "root").mkdir()
    place = make_in(tmp_path / "root", {"workflow_id": "w", "stages": [stage]})
    assert place.json("run").code == 6
    pinning = ("--set", "session_config.pin=scripts", "--reason", "what runs is agreed")
    place.propose(*pinning)
    place.approve()
    for _ in range(2):
        place.done("stage", "retry", "stage-1", "--fix", "again")
        assert place.json("run").code == 6
        assert place.done("status")["stages"][0]["status"] == "failed"
    (place.path / "good").touch()
    place.done("stage", "retry", "stage-1", "--fix", "once more")
    place.done("run")
