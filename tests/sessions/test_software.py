"""The software environment of a stage is active in its command, or the stage fails."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, call, write_plan
from tests.sessions.support import events, stage, workflow

pytestmark = pytest.mark.slow

#: Fake cluster programs that set the same variables as the real programs.
MODULE = (
    'module() { [ "$2" != nowhere ] || { echo "Lmod error: nowhere is unknown" >&2; return 1; }\n'
    'LOADEDMODULES="$LOADEDMODULES${LOADEDMODULES:+:}$2/2.1"; export LOADEDMODULES; }\n'
)
CONDA = """#!/bin/bash
case "$1" in
  shell.bash) echo 'conda() { [ "$1" != activate ] || [ "$2" = none ] || \
    export CONDA_DEFAULT_ENV=$2 CONDA_PREFIX=/envs/$2
    [ "$1" != --version ] || echo conda 24.1; }' ;;
esac
"""
APPTAINER = """#!/bin/bash
[ "$1" != --version ] || { echo apptainer version 1.3; exit; }
while [ "$1" != bash ]; do shift; done
INSIDE=yes exec "$@"
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fake cluster programs on the PATH of the jobs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("conda", CONDA), ("apptainer", APPTAINER)):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    (tmp_path / "module.sh").write_text(MODULE)
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "module.sh"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def computed(folder: Path, command: str, environment: dict[str, Any]) -> tuple[Place, Any]:
    """Run a stage in a software environment; return the workflow and recorded software."""
    asked = {"environment": environment, "expected_seconds": 1}
    place = workflow(folder, stage(1, command, parameters=asked))
    place.json("run")
    [done] = events(place, "stage.computed") or [{"data": {"facts": {}}}]
    return place, done["data"]["facts"].get("environment")


def test_command_runs_in_its_virtual_environment(tmp_path: Path) -> None:
    """The command uses the Python of the environment, and wfctl records its path."""
    venv = tmp_path / "an environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    place, seen = computed(
        tmp_path, 'python3 -c "import sys; print(sys.prefix)" > where', {"venv": str(venv)}
    )
    assert seen["venv"] == str(venv)
    assert seen["python"].startswith(str(venv))
    assert place.done("status")["status"] == "completed"


@pytest.mark.long
def test_environment_paths_of_the_documentation_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths below $HOME in the documentation and in the example plan work unchanged."""
    texts = [HERE / "docs/start/plans.md", HERE / "service/example-plan.toml"]
    shown = r'\b(venv|container) = "(\$HOME/[^"]+)"'
    values = sorted({one for path in texts for one in re.findall(shown, path.read_text("utf-8"))})
    assert {name for name, _ in values} == {"venv", "container"}
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in values:
        path = tmp_path / value.removeprefix("$HOME/")
        path.parent.mkdir(exist_ok=True)
        if name == "venv":
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
        else:
            path.write_text("an image\n")
    asked = [{"environment": dict([value]), "expected_seconds": 1} for value in values]
    place = workflow(
        tmp_path, *(stage(n, "true", parameters=one) for n, one in enumerate(asked, 1))
    )
    assert place.json("run").data["exit_reason"] == "completed", place.done("status")
    seen = [one["data"]["facts"]["environment"] for one in events(place, "stage.computed")]
    assert [one["venv"] for one in seen if "venv" in one] == [str(tmp_path / "venv")]
    assert sum(one.get("image", "").startswith("sha256") for one in seen) == len(values) - 1


def test_command_runs_with_modules_conda_and_container(tmp_path: Path) -> None:
    """Modules, conda and container are active in the command, and versions are recorded."""
    (tmp_path / "image.sif").write_text("an image\n")
    environment = {"modules": ["lammps"], "conda": "md", "container": str(tmp_path / "image.sif")}
    inside = '[ "$INSIDE" = yes ] && [ "$CONDA_DEFAULT_ENV" = md ] && [ "$WFCTL_PARAM_dt" = 2 ]'
    asked = {"environment": {"conda": None, **environment}, "dt": 2, "expected_seconds": 1}
    place = workflow(tmp_path, stage(1, inside, parameters=asked))
    assert place.json("run").data["exit_reason"] == "completed"
    [done] = events(place, "stage.computed")
    seen = done["data"]["facts"]["environment"]
    assert seen["modules"] == "lammps/2.1"
    assert seen["conda"] == "/envs/md (conda 24.1)"
    assert seen["apptainer"] == "apptainer version 1.3"
    assert seen["image"].endswith("image.sif")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"venv": "/nowhere/venv"}, "there is no virtual environment /nowhere/venv"),
        ({"modules": ["nowhere"]}, "the module nowhere is not loaded"),
        ({"conda": "none"}, "there is no conda environment none"),
        ({"container": "/nowhere/x.sif", "container_options": ["--nv"]}, ""),
    ],
)
def test_missing_software_fails_the_stage(
    tmp_path: Path, environment: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command does not run, and the error names the missing software."""
    if "container" in environment:
        (tmp_path / "bin/apptainer").unlink()
        said = "apptainer is not installed"
    place, seen = computed(tmp_path, "touch ran", environment)
    assert seen is None
    shown = place.done("show", "stage-1")
    assert shown["status"] == "failed"
    assert said in (place.path / "stage-1/err").read_text()
    assert shown["last_error"].startswith(f"{said}; exit code 127 (job"), shown["last_error"]


@pytest.mark.long
def test_profile_sets_the_environment_of_all_stages(tmp_path: Path) -> None:
    """A stage can remove a part of the profile's environment by setting it to null."""
    local = {"type": "local", "config": {"batch_type": "Shell", "context_type": "LocalContext"}}
    profiles = {"local": {**local, "environment": {"modules": ["lammps"]}}}
    short = {"expected_seconds": 1}
    none = {**short, "environment": {"modules": None}}
    own = stage(2, '[ -z "${LOADEDMODULES:-}" ]', parameters=none)
    stages = [stage(1, '[ "$LOADEDMODULES" = lammps/2.1 ]', parameters=short), own]
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "backend_profiles": profiles, "stages": stages}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert place.json("run").data["exit_reason"] == "completed"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"modul": ["x"]}, "modul: expected one of modules"),
        ({"modules": "lammps"}, "modules: expected a list of names"),
        ({"modules": ["x; rm -rf ~"]}, "modules: expected a list of names"),
        ({"venv": "venv"}, "venv: expected the folder of a virtual environment"),
        ({"venv": "/v", "conda": "md"}, "conda and venv: expected one of them"),
    ],
)
def test_invalid_environment_is_refused_by_plan_check(
    tmp_path: Path, environment: dict[str, Any], said: str
) -> None:
    """The error message names the field of the plan that is invalid."""
    plan = {"workflow_id": "w", "stages": [stage(1, parameters={"environment": environment})]}
    shown = call("plan", "check", str(write_plan(tmp_path, plan)))
    assert shown.code != 0
    assert f"stage-1.parameters.environment.{said}" in shown.out + shown.err
