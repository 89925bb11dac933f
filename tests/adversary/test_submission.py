"""wfctl runs only the approved job submission, whatever files are next to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import Place, make
from tests.cli.support import HERE, wfctl
from tests.reconciler.support import until
from tests.rounds import first

pytestmark = pytest.mark.slow

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "echo $WFCTL_PARAM_n > out.txt", "n": 5},
        }
    ],
}


def prepared(place: Place, command: str = "echo $WFCTL_PARAM_n > out.txt", **task: Any) -> Path:
    """Write a submission file that looks as if wfctl had prepared it for the stage."""
    own = {"work_base": ".", "machine": {"batch_type": "Shell", "context_type": "LocalContext"}}
    files = {"backward_files": ["out.txt"], "forward_files": []}
    one = {"command": command, "task_work_path": "stage-1", **files, **task}
    folder = place.path / "stage-1"
    folder.mkdir(exist_ok=True)
    path = folder / "submission.json"
    path.write_text(json.dumps({**own, "resources": {"group_size": 1}, "task_list": [one]}))
    return path


def edited(path: Path, change: dict[str, Any]) -> None:
    """Change fields of the prepared submission."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow of one stage that writes its parameter."""
    return make(tmp_path / "root", "--consent", "trust", plan=PLAN)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, None),
        ({"resources": {"envs": {"WFCTL_PARAM_n": "1"}}}, "resources.envs"),
        ({"resources": {"envs": {"LD_PRELOAD": "/tmp/x.so"}}}, "resources.envs"),
        ({"resources": {"prepend_script": ["echo 1 > out.txt"]}}, "resources.prepend_script"),
        ({"resources": {"source_list": ["evil.sh"]}}, "resources.source_list"),
        ({"forward_common_files": ["secrets"]}, "forward_common_files"),
        ({"machine": {"batch_type": "Slurm"}}, "machine"),
    ],
)
@pytest.mark.parametrize("word", ["dispatch", "run"])
def test_prepared_submission_with_other_content_is_drift(
    change: dict[str, Any], named: str | None, word: str, place: Place
) -> None:
    """The command exits with code 6, names the field, and runs nothing."""
    path = prepared(place, "echo 1 > out.txt" if named is None else "echo $WFCTL_PARAM_n > out.txt")
    edited(path, change)
    answer = place.json(*(("dispatch", "stage-1") if word == "dispatch" else ("run",)))
    assert answer.code == 6, answer
    assert (named or "parameters.command") in answer.out
    assert not (place.path / "stage-1/out.txt").exists()
    assert "attempt.started" not in place.types()
    assert {one["kind"] for one in place.bypasses()} == {"refused"}


def test_prepared_submission_without_differences_runs(place: Place) -> None:
    """wfctl fills the fields that the submission omits from the stage definition."""
    prepared(place)
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "5\n"


@pytest.mark.parametrize(
    "word", [["status"], ["why"], ["rehydrate"], ["dispatch", "stage-1"], ["run"]]
)
def test_prepared_submission_of_a_stage_without_command_runs(
    tmp_path: Path, word: list[str]
) -> None:
    """If the stage defines no command, the command of the submission runs."""
    silent = [{**PLAN["stages"][0], "parameters": {"n": 5}}]
    place = make(tmp_path / "root", "--consent", "trust", plan={**PLAN, "stages": silent})
    prepared(place, "echo 7 > out.txt")
    place.propose("--stage", "stage-1", "--set", "parameters.n=7", "--reason", "finer")
    place.approve()
    place.done(*word)
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "7\n"


def test_submission_changed_after_its_record_is_not_submitted(place: Place, tmp_path: Path) -> None:
    """wfctl runs nothing and reports the change, even if the recorded copy was removed."""
    dpdisp = tmp_path / "bin/dpdisp"
    dpdisp.parent.mkdir()
    real = Path(os.environ.get("WFCTL_DPDISP") or Path(sys.executable).parent / "dpdisp")
    own = place.path / "stage-1/.attempts/att-0001-*/submission.json"
    kept = place.path / ".wfctl/submissions/*"
    (tmp_path / "bin/dargs").symlink_to(real.with_name("dargs"))
    # Change the submission from this fake program: wfctl runs `dpdisp --version` after it records
    # the attempt and before it submits the job.
    dpdisp.write_text(
        f"#!{tmp_path}/bin/python\n" + real.read_text().partition("\n")[2], encoding="utf-8"
    )
    python = tmp_path / "bin/python"
    python.write_text(
        f"#!/bin/bash\nsed -i 's/echo .WFCTL_PARAM_n/echo 1/' {own} && rm -f {kept}\n"
        f'exec {real.with_name("python")} "$@"\n'
    )
    for path in (dpdisp, python):
        path.chmod(0o755)
    line = ("--root", str(place.path), "-o", "json", "dispatch", "stage-1", "--sync")
    answer = wfctl(*line, environ={"WFCTL_DPDISP": str(dpdisp)})
    assert not (place.path / "stage-1/out.txt").exists(), answer
    found = place.done("show", "stage-1")
    assert found["status"] == "failed", answer
    assert "not the one that was recorded" in found["last_error"]


ALONE = ("run", "--autonomous", "--max-sessions", "1")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("module", "words"),
    first(
        [
            ("json", ("run",)),
            ("signal", ALONE),
            *((module, ("run",)) for module in ("signal", "subprocess", "typing")),
            ("json", ALONE),
        ],
        2,
    ),
)
def test_module_in_the_root_is_not_imported(
    module: str, words: tuple[str, ...], place: Place, tmp_path: Path
) -> None:
    """wfctl never executes a file in the root that has the name of a Python module."""
    trace = tmp_path / "imported"
    body = f"open({str(trace)!r}, 'a').write({module!r})\nraise SystemExit(9)\n"
    (place.path / f"{module}.py").write_text(body)
    done = subprocess.run(
        # `-P` keeps the current folder out of the import path, as for the installed program.
        [sys.executable, "-P", "-m", "cli.main", *words],
        cwd=place.path,
        env={**os.environ, "PYTHONPATH": str(HERE), "TMUX_TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if len(words) > 1:
        until(lambda: place.done("status")["status"] == "completed" or trace.exists())
    assert not trace.exists(), done
    assert done.returncode == 0, done
