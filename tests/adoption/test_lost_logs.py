"""The event log is lost while jobs run: an import of the files continues the same jobs."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from tests.crash.support import Workflow, stage, until
from tests.crash.victims import Victim, find, strike
from tests.programs import path_without
from tests.rounds import first

pytestmark = pytest.mark.slow

TASKS = 4
GATE = "while [ ! -e {go} ]; do sleep 0.02; done"


class World(StrEnum):
    """The condition of the attempt when its log is lost."""

    WATCHED = "a monitor watches its job"
    ORPHANED = "its job runs without a monitor"
    UNCOLLECTED = "its job has ended, and nobody collected it"
    COLLECTED = "it has ended and was collected"


def _stages(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return a single-job stage and a sweep whose commands wait for a file and write a line."""
    gate, trace = GATE.format(go=folder / "go"), folder / "trace"
    one = stage("stage-1", f'{gate}; echo 1 > out.txt; echo one >> "{trace}"')
    many = {
        "id": "stage-1",
        "name": "Many",
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {
            "command": f'{gate}; echo 1 > e.txt; echo "$WFCTL_TASK" >> "{trace}"',
            "map": {"grid": {"T": {"from": 1, "to": TASKS}}},
            "task_outputs": ["e.txt"],
            "at_once": 2,
        },
    }
    return {"a stage": one, "a sweep": many}


def _brought_to(workflow: Workflow, world: World, outside: Path) -> None:
    """Bring the launched attempt of stage-1 into one of the conditions of `World`."""
    if world in (World.ORPHANED, World.UNCOLLECTED):
        until(lambda: find(workflow, Victim.JOB))
        strike(workflow, Victim.SESSION)
    if world in (World.UNCOLLECTED, World.COLLECTED):
        (outside / "go").touch()
        until(lambda: not find(workflow, Victim.JOB))
    if world is World.COLLECTED:
        until((workflow.root / "stage-1/DPDISP_DONE").exists)


def _lose_the_log(workflow: Workflow, **environ: str) -> None:
    shutil.rmtree(workflow.root / ".wfctl")
    workflow.succeed("import", ".", "--consent", "trust", **environ)


def _check_computed_once(workflow: Workflow, outside: Path, kind: str) -> None:
    assert workflow.stage("stage-1")["status"] == "completed"
    once = ["one"] if kind == "a stage" else [f"T={n}" for n in range(1, TASKS + 1)]
    assert Counter((outside / "trace").read_text().split()) == Counter(once)
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


@pytest.mark.long
@pytest.mark.parametrize("monitor", first(["tmux", "setsid"]))
@pytest.mark.parametrize("kind", ["a stage", "a sweep"])
@pytest.mark.parametrize("world", World)
def test_work_of_a_lost_log_runs_once(
    workflow: Workflow, tmp_path: Path, world: World, kind: str, monitor: str
) -> None:
    """wfctl awaits running jobs, collects ended jobs, and runs no job twice."""
    path = path_without("tmux", tmp_path / "bin") if monitor == "setsid" else None
    environ = {} if path is None else {"PATH": path}
    workflow.init(_stages(tmp_path)[kind])
    workflow.succeed("dispatch", "stage-1", **environ)
    _brought_to(workflow, world, tmp_path)
    _lose_the_log(workflow, **environ)
    workflow.succeed("rehydrate", **environ)
    assert workflow.stage("stage-1")["status"] != "failed"
    (tmp_path / "go").touch()
    workflow.succeed("run", **environ)
    _check_computed_once(workflow, tmp_path, kind)


@pytest.mark.long
def test_second_attempt_is_found_by_its_folder_name(workflow: Workflow, tmp_path: Path) -> None:
    """wfctl finds the job by its folder, although the new log counts attempts from one."""
    workflow.init(_stages(tmp_path)["a stage"])
    workflow.succeed("dispatch", "stage-1")
    workflow.succeed("stage", "fail", "stage-1", "--error", "on second thoughts", "--stop")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "nothing")
    workflow.succeed("dispatch", "stage-1")
    _lose_the_log(workflow)
    found = json.loads(workflow.succeed("reconcile", "-o", "json"))["data"]["findings"]
    assert [(one["attempt"], one["verdict"]["name"]) for one in found] == [
        ("att-0001", "MONITORED")
    ]
    (tmp_path / "go").touch()
    workflow.succeed("run")
    _check_computed_once(workflow, tmp_path, "a stage")


@pytest.mark.long
def test_attempt_without_log_and_folder_is_judged_by_its_session(
    workflow: Workflow, tmp_path: Path
) -> None:
    """The attempt fails, because its session ended, and a retry runs the stage."""
    workflow.init(_stages(tmp_path)["a stage"])
    workflow.succeed("dispatch", "stage-1")
    until(lambda: find(workflow, Victim.JOB))
    strike(workflow, Victim.EVERYTHING)
    shutil.rmtree(workflow.root / "stage-1/.attempts")
    _lose_the_log(workflow)
    workflow.succeed("rehydrate")
    assert workflow.stage("stage-1")["status"] == "failed"
    (tmp_path / "go").touch()
    workflow.succeed("stage", "retry", "stage-1", "--fix", "nothing")
    workflow.succeed("run")
    _check_computed_once(workflow, tmp_path, "a stage")
