"""One damaged file of an attempt: wfctl restores it from the log, and all stages complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.cluster.support import write_machine
from tests.crash.damage import DAMAGES, FILES, strike
from tests.crash.support import Workflow, until
from tests.crash.test_lives import begin, begun, let_go
from tests.crash.victims import Victim, is_job, processes
from tests.crash.victims import strike as kill
from tests.need import need
from tests.rounds import first, rounds

pytestmark = pytest.mark.slow

#: Damage that occurred on real machines, and damage that makes a reader wait for ever.
SEEN = [
    (FILES[0], "half"),
    (FILES[0], "gone"),
    (FILES[0], "object"),
    (FILES[1], "empty"),
    (FILES[1], "list"),
    (FILES[2], "gone"),
    (FILES[3], "object"),
    (FILES[6], "digits"),
    (FILES[10], "empty"),
    (FILES[10], "list"),
    (FILES[11], "pipe"),
    ("DPDISP_EXIT_CODE", "folder"),
    ("DPDISP_DONE", "pipe"),
]
EVERY = list(product(FILES, DAMAGES))


def plan(stages: int) -> list[dict[str, Any]]:
    """Return stages that run until they are released, each with its own output."""
    return [one(f"stage-{number}") for number in range(1, stages + 1)]


def one(id_: str) -> dict[str, Any]:
    """Return a stage that writes a line outside its attempt before it computes."""
    up = "../../../../../.."
    command = f'echo "{id_}" >> {up}/trace; until [ -e {up}/go ]; do sleep 0.05; done'
    return {
        "id": id_,
        "name": id_,
        "outputs": [f"{id_}/out.txt"],
        "parameters": {"command": f"{command}; echo {id_} > out.txt"},
    }


def left_behind(workflow: Workflow, stages: int) -> None:
    """Launch every stage, kill the monitors, and let the jobs end without a monitor."""
    workflow.init(*plan(stages))
    for number in range(1, stages + 1):
        workflow.succeed("dispatch", f"stage-{number}")
    until(lambda: len(workflow.trace()) == stages)
    kill(workflow, Victim.SESSION)
    (workflow.root / "go").touch()
    until(lambda: not any(is_job(pid) for pid in processes(workflow)))


def check_all_collected(workflow: Workflow) -> None:
    """Check that no command exits with code 1, that each job ran once, and that results exist."""
    for command in ("rehydrate", "reconcile", "run", "status", "rehydrate", "run"):
        done = workflow.call(command)
        assert done.returncode in (0, 5), (command, done.returncode, done.stdout, done.stderr)
    stages = json.loads((workflow.root / "workflow-state.json").read_bytes())["stages"]
    left = {one["id"]: (one["status"], one["last_error"]) for one in stages}
    assert {id_: found for id_, found in left.items() if found[0] != "completed"} == {}
    assert sorted(workflow.trace()) == sorted(left)
    assert all((workflow.root / id_ / "out.txt").read_text() == f"{id_}\n" for id_ in left)


def damaged(workflow: Workflow, cases: list[tuple[str, str]]) -> None:
    """Damage one file of each stage in a different way."""
    left_behind(workflow, len(cases))
    for number, (pattern, damage) in enumerate(cases, 1):
        strike(workflow.root / f"stage-{number}", pattern, damage)


@pytest.mark.long
def test_a_result_is_collected_although_a_file_is_damaged(workflow: Workflow) -> None:
    """wfctl collects the result of each stage although one of its files is damaged."""
    damaged(workflow, SEEN)
    check_all_collected(workflow)


@pytest.mark.long
@pytest.mark.parametrize("is_watched", first([False, True]))
def test_edited_submission_is_not_submitted(workflow: Workflow, is_watched: bool) -> None:
    """If the submission file was edited, the attempt still runs the command from the log."""
    workflow.init(one("stage-1"))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    if not is_watched:
        kill(workflow, Victim.SESSION)
    [path] = workflow.root.glob("stage-1/.attempts/*/submission.json")
    path.write_text(path.read_text().replace("echo stage-1", "echo FORGED"))
    (workflow.root / "go").touch()
    check_all_collected(workflow)
    if not is_watched:
        assert "FORGED" in next(path.parent.glob("stale/submission.json*")).read_text()


@pytest.mark.long
def test_an_output_counts_whatever_the_clock_says(workflow: Workflow) -> None:
    """An output is valid if it did not exist at the launch, whatever time it has."""
    left_behind(workflow, 1)
    workflow.succeed("wait", "stage-1")
    [launch] = workflow.root.glob("stage-1/.attempts/*/launch.json")
    # The test makes the launch file newer than the output, because the change time of a file cannot
    # be set.
    os.utime(launch)
    told = json.loads(launch.read_text())["places"]
    assert told == {"stage-1/out.txt": None}
    assert launch.stat().st_ctime_ns > (workflow.root / "stage-1/out.txt").stat().st_ctime_ns
    check_all_collected(workflow)


@pytest.mark.parametrize("cases", rounds([EVERY[n::15] for n in range(15)], few=3))
def test_any_file_with_any_damage_is_recovered(
    workflow: Workflow, cases: list[tuple[str, str]]
) -> None:
    """wfctl recovers from each kind of damage to each file of an attempt."""
    damaged(workflow, cases)
    check_all_collected(workflow)


@pytest.mark.long
@pytest.mark.parametrize("how", first(["loop", "file"]))
def test_a_folder_of_attempts_that_is_unreadable_is_reported(workflow: Workflow, how: str) -> None:
    """wfctl draws no conclusion from a folder that it cannot read, and other stages continue."""
    workflow.init(one("stage-1"), {**one("stage-2"), "parameters": {"command": "echo 2 > out.txt"}})
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    kill(workflow, Victim.SESSION)
    (workflow.root / "go").touch()
    until(lambda: not any(is_job(pid) for pid in processes(workflow)))
    folder = workflow.root / "stage-1/.attempts"
    saved = folder.rename(workflow.root / "saved")
    folder.write_text("") if how == "file" else folder.symlink_to(folder.name)
    said = workflow.succeed("rehydrate")
    assert "UNREADABLE" in said
    assert str(folder) in said
    seen = {one["data"]["verdict"] for one in workflow.events("attempt.observed")}
    assert seen == {"UNREADABLE"}
    assert workflow.call("run").returncode == 6
    assert workflow.stage("stage-2")["status"] == "completed"
    folder.unlink()
    saved.rename(folder)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert workflow.trace() == ["stage-1"]


@pytest.fixture
def on_another_disk(tmp_path: Path) -> Iterator[Path]:
    """Create a folder on a file system other than that of the root."""
    places = [place for place in (Path("/dev/shm"), Path("/var/tmp")) if place.is_dir()]
    others = [place for place in places if place.stat().st_dev != tmp_path.stat().st_dev]
    need(bool(others), "a second file system, of /dev/shm and /var/tmp")
    with TemporaryDirectory(dir=others[0]) as folder:
        # The folder needs this name, because wfctl recognizes a job by its working folder below
        # `work`.
        work = Path(folder) / "work"
        work.mkdir()
        yield work


@pytest.mark.long
def test_a_result_on_another_file_system_is_collected_without_a_monitor(
    workflow: Workflow, on_another_disk: Path
) -> None:
    """If the job ran on another disk, wfctl copies its results instead of renaming them."""
    context = {"batch_type": "Shell", "context_type": "LocalContext"}
    path = write_machine(workflow, {**context, "remote_root": str(on_another_disk)})
    begin(workflow, "old", machine=path, waits=True)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: begun(workflow))
    kill(workflow, Victim.SESSION)
    let_go(workflow)
    until(lambda: list(on_another_disk.rglob("*_job_tag_finished")))
    for recovery in on_another_disk.rglob("*/" + "?" * 40 + ".json"):
        recovery.write_text("")
    for command in ("rehydrate", "run", "rehydrate", "run"):
        done = workflow.call(command)
        assert done.returncode in (0, 5), done
    assert workflow.stage("stage-1")["status"] == "completed"
    assert (workflow.root / "stage-1/out.txt").read_text() == "old\n"
    assert len(begun(workflow)) == 1
