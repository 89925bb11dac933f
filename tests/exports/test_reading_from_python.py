"""Reading a workflow from Python returns the answers of the commands and writes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest

import wfctl_eventstore
from tests.cli.support import HERE, Place, tree
from tests.keeping.support import made, stage
from tests.need import need
from wfctl_eventstore import WfctlError

SWEEP: dict[str, Any] = {
    "map": {"grid": {"T": [1, 2]}},
    "task_outputs": ["out.json"],
    "metrics": {"double": "out.json#/x"},
}
COUNT = "echo '{\"x\": '$((WFCTL_PARAM_T * 2))'}' > out.json"
PLAIN = {"metrics": {"x": "x.json#/x"}}

READ_ONLY = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
if touch "$1/probe" 2>/dev/null; then exit 9; fi
cd /
exec "$2" -c "
import json, sys, wfctl_eventstore
study = wfctl_eventstore.open(sys.argv[1])
print(json.dumps([study.status(), study.results(), study.metrics(), study.tasks('stage-1'),
    study.events()]))" "$1"
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create and run a workflow with a sweep and a plain stage, which both record numbers."""
    sweep = stage(1, COUNT, outputs=["stage-1/tasks.csv"], parameters=SWEEP)
    plain = stage(2, "echo '{\"x\": 7}' > x.json", outputs=["stage-2/x.json"], parameters=PLAIN)
    place = made(tmp_path_factory.mktemp("read"), sweep, plain, consent="trust")
    place.done("run")
    return place


def answers(place: Place) -> list[Any]:
    """Return the JSON answers of the commands that the Python reader must match."""
    return [
        place.done("status"),
        place.done("results")["results"],
        place.done("metrics")["metrics"],
        place.done("tasks", "stage-1", "-n", "0")["tasks"],
        place.done("events"),
    ]


def read(place: Path) -> list[Any]:
    """Return the answers of the Python reader, and check that they are JSON values."""
    study = wfctl_eventstore.open(place)
    found: list[Any] = [
        study.status(),
        study.results(),
        study.metrics(),
        study.tasks("stage-1"),
        study.events(),
    ]
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.mark.long
@pytest.mark.slow
def test_reader_returns_the_answers_of_the_commands(ran: Place) -> None:
    """The reader also accepts a subfolder, one stage, a condition and an earlier version."""
    assert read(ran.path / "stage-1") == answers(ran)
    study = wfctl_eventstore.open(str(ran.path))
    assert study.status(at="4") == ran.done("status", "--at", "4")
    asked = ("metrics", "stage-1", "--where", "T>1")
    assert study.metrics("stage-1", where="T>1") == ran.done(*asked)["metrics"]
    assert study.metrics("stage-1") == [
        {"key": "T=1", "T": 1, "double": 2},
        {"key": "T=2", "T": 2, "double": 4},
    ]
    (one,) = study.tasks("stage-1", where=["T=1", "state=done"])
    assert one["metrics"] == {"double": 2}
    chosen = study.events(types="stage.*", stages="stage-2")
    assert chosen == ran.done("events", "--type", "stage.*", "--stage", "stage-2")


@pytest.mark.slow
def test_reader_writes_no_file(ran: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root, its parent and the user's own folders stay unchanged, with all times."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    before = tree(ran.path.parent)
    times = {path: path.stat().st_mtime_ns for path in ran.path.parent.rglob("*")}
    read(ran.path)
    assert tree(ran.path.parent) == before
    assert {path: path.stat().st_mtime_ns for path in ran.path.parent.rglob("*")} == times
    assert not tree(tmp_path)


@pytest.mark.slow
def test_read_only_root_can_be_read(ran: Place) -> None:
    """The reader works on a root that is mounted read-only."""
    tried = subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True)
    need(tried.returncode == 0, "this kernel lets nobody mount in a name space")
    line = ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(ran.path), sys.executable]
    # Use the same user account, because the answers include its knowledge of other logs.
    environ = {**os.environ, "PYTHONPATH": str(HERE)}
    before = answers(ran)
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    found, after = json.loads(done.stdout), answers(ran)
    # A process that the run started may end between two reads and change a value, so changing
    # values are not compared.
    told = {k: v for k, v in found[0].items() if v not in (before[0][k], after[0][k])}
    assert (told, found[1:]) == ({}, after[1:])


@pytest.mark.slow
def test_data_frames_have_a_row_for_each_entry(ran: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data frame has a row for each task. Without pandas, the error names pandas."""
    need(find_spec("pandas") is not None, "not installed: pandas")
    study = wfctl_eventstore.open(ran.path)
    tasks = study.tasks("stage-1", frame=True)
    assert [*tasks["T"]] == [1, 2]
    assert tasks["double"].sum() == 6
    assert [*study.status(frame=True)["id"]] == ["stage-1", "stage-2"]
    assert study.metrics(frame=True)["value"].iloc[-1] == 7
    log = study.events(frame=True)
    assert len(log) == len(ran.done("events"))
    assert {"type", "data", "hash"} <= set(log.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pandas"):
        study.tasks("stage-1", frame=True)


@pytest.mark.slow
def test_exported_notebook_opens_the_tables(
    ran: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notebook is valid, and its cells run in a folder of the workflow."""
    need(find_spec("pandas") is not None, "not installed: pandas")
    file = tmp_path / "study.ipynb"
    ran.done("export", "notebook", str(file))
    cells = nbformat.read(file, as_version=4).cells  # type: ignore[no-untyped-call]
    assert cells[0].source.startswith("# w\n\nSee it kept.")
    monkeypatch.chdir(ran.path / "stage-1")
    names: dict[str, Any] = {}
    opening, *others = [cell.source for cell in cells if cell.cell_type == "code"]
    exec(opening, names)
    status, metrics, tasks = (eval(text, names) for text in others)
    assert [*status["id"]] == ["stage-1", "stage-2"]
    assert metrics["value"].iloc[-1] == 7
    assert [*tasks["double"]] == [2, 4]


@pytest.mark.slow
def test_reader_error_has_the_code_and_data_of_the_command(ran: Place, tmp_path: Path) -> None:
    """A missing workflow, a stage without tasks and a wrong program raise clear errors."""
    with pytest.raises(WfctlError, match="no workflow found") as no_root:
        wfctl_eventstore.open(tmp_path)
    assert (no_root.value.code, no_root.value.exit_code) == ("no_workflow", 3)
    with pytest.raises(WfctlError) as no_tasks:
        wfctl_eventstore.open(ran.path).tasks("stage-2")
    assert no_tasks.value.data == {"stage": "stage-2"}
    with pytest.raises(WfctlError, match="no output") as no_answer:
        wfctl_eventstore.open(ran.path, program="true")
    assert no_answer.value.code == "no_answer"
    with pytest.raises(FileNotFoundError):
        wfctl_eventstore.open(ran.path, program=["/nowhere/wfctl"])


def test_importing_the_reader_loads_only_the_standard_library() -> None:
    """No module of wfctl or its dependencies is loaded."""
    code = (
        "import wfctl_eventstore; wfctl_eventstore.WorkflowReader('.', ['true']);"
        "print(*(m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names))"
    )
    path = f"import sys; sys.path = [{str(HERE)!r}, *sys.path]"
    line = [sys.executable, "-I", "-S", "-c", f"{path}; {code}"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["__main__", "wfctl_eventstore"]
