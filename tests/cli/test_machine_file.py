"""The machine file of a backend profile, as a plan names it: found for every kind of stage."""

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
#: As a plan may write it → where the file is, both seen from the root; {} is the folder above it.
WRITTEN = {
    "hpc.json": "hpc.json",
    "machines/old/../hpc.json": "machines/hpc.json",
    "../shared/hpc.json": "../shared/hpc.json",
    "{}/shared/hpc.json": "../shared/hpc.json",
}


def begun(folder: Path, stage: dict[str, Any], written: str) -> Place:
    """Make a workflow of one stage that runs on the machine which a profile names."""
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
    """Write the machine file."""
    file = place.path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(MACHINE))


@pytest.mark.slow
@pytest.mark.parametrize("written", first(list(WRITTEN)))
@pytest.mark.parametrize("stage", [PLAIN, SWEEP], ids=["plain", "sweep"])
@pytest.mark.parametrize("before", ["no folder", "a folder", "a link", "prepared"])
def test_a_machine_file_is_found_from_the_root(
    tmp_path: Path, written: str, stage: dict[str, Any], before: str
) -> None:
    """Whatever there is of the stage's folder, and however the path is written."""
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
def test_a_machine_file_that_is_missing_is_named_where_it_is_looked_for(
    tmp_path: Path, written: str
) -> None:
    """The refusal names the very path at which the file is expected."""
    place = begun(tmp_path, PLAIN, written)
    refused = place.json("dispatch", "film")
    assert refused.code == 5
    assert f"{place.path / WRITTEN[written]} is missing" in refused.error["message"]
