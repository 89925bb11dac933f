"""The machine file of a backend profile is found for every kind of stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan
from tests.rounds import first

MACHINE = {
    "batch_type": "Shell",
    "context_type": "LocalContext",
    "local_root": ".",
    "remote_root": ".",
}
PLAIN = {"outputs": ["film/out.txt"], "parameters": {"command": "echo hi > out.txt"}}
SWEEP = {
    "outputs": ["film/tasks.csv"],
    "parameters": {
        "command": "echo 1 > out.txt",
        "map": {"grid": {"T": [1]}},
        "task_outputs": ["out.txt"],
    },
}
#: Path of the machine file in the plan → its path relative to the root. {} stands for the folder
#: above the root.
WRITTEN = {
    "hpc.json": "hpc.json",
    "machines/old/../hpc.json": "machines/hpc.json",
    "../shared/hpc.json": "../shared/hpc.json",
    "{}/shared/hpc.json": "../shared/hpc.json",
}


def begun(folder: Path, stage: dict[str, Any], written: str) -> Place:
    """Create a workflow of one stage that runs on the machine of a profile."""
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {
        "workflow_id": "w",
        "default_backend": "hpc",
        "backend_profiles": {"hpc": {"type": "local", "config_path": written}},
        "stages": [{"id": "film", "name": "Film", **stage}],
    }
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


def put(place: Place, path: str) -> None:
    """Write the machine file at the given path."""
    file = place.path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(MACHINE))


@pytest.mark.few(3)
@pytest.mark.slow
@pytest.mark.parametrize("written", first(list(WRITTEN)))
@pytest.mark.parametrize("stage", [PLAIN, SWEEP], ids=["plain", "sweep"])
@pytest.mark.parametrize("before", ["no folder", "a folder", "a link", "prepared"])
def test_machine_file_path_is_relative_to_the_root(
    tmp_path: Path, written: str, stage: dict[str, Any], before: str
) -> None:
    """wfctl finds the machine file for each spelling of its path."""
    place = begun(tmp_path, stage, written.format(tmp_path))
    put(place, WRITTEN[written])
    own = place.path / "film"
    match before:
        case "a folder":
            own.mkdir(exist_ok=True)
        case "a link":
            (place.path / "scratch/film").mkdir(parents=True)
            own.symlink_to("scratch/film")
        case "prepared":
            own.mkdir(exist_ok=True)
            absolute = written.startswith("{}")
            task = {"command": stage["parameters"]["command"], "task_work_path": "film"}
            reference = written.format(tmp_path) if absolute else f"../{WRITTEN[written]}"
            given = {"machine": {"$ref": reference}, "resources": {}, "task_list": [task]}
            (own / "submission.json").write_text(json.dumps(given))
    place.done("dispatch", "film", "--sync")
    place.done("run")
    assert place.done("show", "film")["status"] == "completed"


@pytest.mark.parametrize("written", ["hpc.json", "machines/old/../hpc.json"])
def test_missing_machine_file_is_named_with_its_path(tmp_path: Path, written: str) -> None:
    """The error shows the exact path at which the file is expected."""
    place = begun(tmp_path, PLAIN, written)
    refused = place.json("dispatch", "film")
    assert refused.code == 5
    assert f"{place.path / WRITTEN[written]} of the stage" in refused.error["message"]
