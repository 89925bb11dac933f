"""A notebook reads a workflow: the answers of the commands, and nothing is written."""

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

import wfctl_read
from service.errors import NoRoot, NotFound
from tests.cli.support import HERE, Place, tree
from tests.keeping.support import made, stage
from tests.need import need

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
import json, sys, wfctl_read as read
root = read.open_workflow(sys.argv[1])
print(json.dumps([read.status(root), read.metrics(root), read.tasks(root, 'stage-1'),
    read.events(root)]))" "$1"
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Make a workflow of a sweep and a plain stage, both with numbers, and run it."""
    sweep = stage(1, COUNT, outputs=["stage-1/tasks.csv"], parameters=SWEEP)
    plain = stage(2, "echo '{\"x\": 7}' > x.json", outputs=["stage-2/x.json"], parameters=PLAIN)
    place = made(tmp_path_factory.mktemp("read"), sweep, plain, consent="trust")
    place.done("run")
    return place


def answers(place: Place) -> list[Any]:
    """Return what the commands answer."""
    return [
        place.done("status"),
        place.done("metrics")["metrics"],
        place.done("tasks", "stage-1", "-n", "0")["tasks"],
        place.done("events"),
    ]


def read(place: Path) -> list[Any]:
    """Return what is read of a workflow, as JSON would have it."""
    root = wfctl_read.open_workflow(place)
    found: list[Any] = [
        wfctl_read.status(root),
        wfctl_read.metrics(root),
        wfctl_read.tasks(root, "stage-1"),
        wfctl_read.events(root),
    ]
    assert json.loads(json.dumps(found)) == found
    return found


@pytest.mark.slow
def test_the_answers_are_those_of_the_commands(ran: Place) -> None:
    """Also from a folder below the root, of one stage, of conditions, and of a moment."""
    assert read(ran.path / "stage-1") == answers(ran)
    root = str(ran.path)
    assert wfctl_read.status(root, at="4") == ran.done("status", "--at", "4")
    asked = ("metrics", "stage-1", "--where", "T>1")
    assert wfctl_read.metrics(root, "stage-1", where="T>1") == ran.done(*asked)["metrics"]
    assert wfctl_read.metrics(root, "stage-1") == [
        {"key": "T=1", "T": 1, "double": 2},
        {"key": "T=2", "T": 2, "double": 4},
    ]
    (one,) = wfctl_read.tasks(root, "stage-1", where=["T=1", "state=done"])
    assert one["metrics"] == {"double": 2}
    chosen = wfctl_read.events(root, types="stage.*", stages="stage-2")
    assert chosen == ran.done("events", "--type", "stage.*", "--stage", "stage-2")


@pytest.mark.slow
def test_reading_leaves_every_byte_as_it_was(
    ran: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the root, beside it, and where this login keeps its own."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    before = tree(ran.path.parent)
    times = {path: path.stat().st_mtime_ns for path in ran.path.parent.rglob("*")}
    read(ran.path)
    assert tree(ran.path.parent) == before
    assert {path: path.stat().st_mtime_ns for path in ran.path.parent.rglob("*")} == times
    assert not tree(tmp_path)


@pytest.mark.slow
def test_a_root_that_nobody_can_write_is_read(ran: Place) -> None:
    """As on a disk that is mounted read-only."""
    tried = subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True)
    need(tried.returncode == 0, "this kernel lets nobody mount in a name space")
    line = ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(ran.path), sys.executable]
    # The same login: what it knows of other logs is among the answers.
    environ = {**os.environ, "PYTHONPATH": str(HERE)}
    before = answers(ran)
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    found, after = json.loads(done.stdout), answers(ran)
    # What a run leaves behind it may end meanwhile.
    told = {k: v for k, v in found[0].items() if v not in (before[0][k], after[0][k])}
    assert (told, found[1:]) == ({}, after[1:])


@pytest.mark.slow
def test_frames_have_a_row_each(ran: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the values of a task as columns; without pandas that is said."""
    need(find_spec("pandas") is not None, "not installed: pandas")
    root = wfctl_read.open_workflow(ran.path)
    tasks = wfctl_read.tasks(root, "stage-1", frame=True)
    assert [*tasks["T"]] == [1, 2]
    assert tasks["double"].sum() == 6
    assert [*wfctl_read.status(root, frame=True)["id"]] == ["stage-1", "stage-2"]
    assert wfctl_read.metrics(root, frame=True)["value"].iloc[-1] == 7
    log = wfctl_read.events(root, frame=True)
    assert len(log) == len(ran.done("events"))
    assert {"type", "data", "hash"} <= set(log.columns)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pandas"):
        wfctl_read.tasks(root, "stage-1", frame=True)


@pytest.mark.slow
def test_an_exported_notebook_opens_the_tables(
    ran: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one by the format's own reader, and each cell can be run in the workflow's folder."""
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
def test_what_is_not_there_is_an_error_of_the_commands(ran: Place, tmp_path: Path) -> None:
    """With its code and its values."""
    with pytest.raises(NoRoot) as no_root:
        wfctl_read.open_workflow(tmp_path)
    assert no_root.value.code == "no_workflow"
    with pytest.raises(NotFound) as no_tasks:
        wfctl_read.tasks(ran.path, "stage-2")
    assert no_tasks.value.data == {"stage": "stage-2"}


def test_the_import_loads_nothing_else() -> None:
    """What an answer needs is loaded with the first one."""
    code = (
        "import sys, time; began = time.process_time(); import wfctl_read;"
        "took = time.process_time() - began;"
        "print(took, *(m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names))"
    )
    line = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path = [{str(HERE)!r}, *sys.path]; {code}",
    ]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    took, *loaded = done.stdout.split()
    assert loaded == ["__main__", "wfctl_read"]
    assert float(took) < 0.5  # ten times the aim
