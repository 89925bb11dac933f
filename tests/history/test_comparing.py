"""`compare` shows attempts, moments and workflows side by side."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, call, write_plan
from tests.sweeps.support import begun, sweep

STAGE = {
    "id": "stage-1",
    "name": "Make",
    "outputs": ["stage-1/out.txt"],
    "parameters": {"command": "echo $WFCTL_PARAM_seed > out.txt", "verify": "true", "seed": 1},
}


def made(folder: Path) -> Place:
    """Return a workflow that was computed twice with different seeds."""
    root = folder / "root"
    root.mkdir()
    plan = {"workflow_id": "two-2026-03-31", "stages": [STAGE]}
    init = call("--root", str(root), "init", str(write_plan(folder, plan)), "--consent", "trust")
    assert init.code == 0, init
    place = Place(root)
    assert place.call("run").code == 0
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--set",
               "parameters.seed=2", "--reason", "another")  # fmt: skip
    place.done("amend", "approve", "amend-1", "--actor", "user:ada")
    assert place.call("run").code == 0, place.log()
    return place


def test_compare_shows_parameters_and_outputs_of_two_attempts(tmp_path: Path) -> None:
    """`compare` lists only differences, and with `--all` also equal values."""
    place = made(tmp_path)
    one, two = "stage-1/att-0001", "stage-1/att-0002"
    found = {row["name"]: row for row in place.done("compare", one, two)["rows"]}
    assert found["seed"]["values"] == {one: 1, two: 2}
    assert found["stage-1/out.txt"]["same"] is False
    assert "command" not in found
    every = {row["name"] for row in place.done("compare", one, two, "--all")["rows"]}
    assert {"command", "outcome", "seconds"} <= every
    table = place.call("compare", one, two).out
    assert "DIFFERENCE" in table
    rows = list(csv.DictReader(io.StringIO(place.call("-o", "csv", "compare", one, two).out)))
    assert next(row for row in rows if row["name"] == "seed")[two] == "2"


def _copied(place: Place, kind: str) -> Path:
    """Return a copy of a workflow, as a folder or as an archive with its files."""
    other = place.path.parent / ("copy" if kind == "folder" else "copy.zip")
    if kind == "folder":
        shutil.copytree(place.path, other)
    else:
        place.done("export", "archive", str(other), "--with", "inputs,outputs,scripts")
    return other


COPIES = pytest.mark.parametrize("kind", ["folder", "archive"])


@COPIES
def test_compare_accepts_moments_and_copies(tmp_path: Path, kind: str) -> None:
    """A copy has the same outputs, and the first version has no outputs."""
    place = made(tmp_path)
    other = _copied(place, kind)
    found = place.done("compare", str(place.path), str(other), "1")["rows"]
    output = next(row for row in found if row["kind"] == "output")
    assert output["values"]["1"] is None
    assert output["values"][str(other)] == output["values"][str(place.path)]
    same = place.done("compare", str(place.path), str(other))["rows"]
    assert [row["same"] for row in same] == [True]


def test_compare_refuses_unknown_sides(tmp_path: Path) -> None:
    """A single side is refused. The error for an unknown attempt lists the known ones."""
    place = made(tmp_path)
    assert place.call("compare", "1").code == 2
    assert place.call("compare", "1", "1").code == 2
    missing = place.call("compare", "1", "stage-1/att-0009")
    assert (missing.code, "att-0002" in missing.err) == (3, True)
    for unknown in ("never", "study.zip"):
        answer = place.call("compare", "1", unknown)
        assert (answer.code, "expected a stage, STAGE/ATTEMPT, " in answer.err) == (2, True)
    (tmp_path / "no.zip").write_text("no archive")
    damaged = place.json("compare", "1", str(tmp_path / "no.zip"))
    assert (damaged.code, damaged.error["code"]) == (1, "unusable_archive")


def _fitted(folder: Path, *, git: bool = False) -> Place:
    """Return a workflow whose fit was computed twice with different scripts."""
    root = folder / "root"
    root.mkdir(parents=True)
    stage = {
        "id": "stage-1",
        "name": "Fit",
        "inputs": ["fit.py"],
        "outputs": ["stage-1/fit.json"],
        "parameters": {
            "command": "python3 ../fit.py > fit.json",
            "metrics": {"T_c": {"at": "fit.json#/tc", "error": "#/error", "unit": "J"}},
        },
    }
    script = "import json\nprint(json.dumps({'tc': 2.2612, 'error': 0.01}))\n"
    (root / "fit.py").write_text(script)
    plan = {"workflow_id": "fits", "stages": [stage]}
    place = Place(root)
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    place.done("run")
    if git:
        for line in ("init -q", "add fit.py", "-c user.name=a -c user.email=a@b commit -qm one"):
            subprocess.run(["git", *line.split()], cwd=root, check=True)
    (root / "fit.py").write_text(script.replace("2.2612", "2.2723"))
    place.done("rerun", "stage-1", "--reason", "another script")
    place.done("run")
    return place


ONE, TWO = "stage-1/att-0001", "stage-1/att-0002"


@pytest.mark.long
def test_compare_gives_differences_in_standard_errors(tmp_path: Path) -> None:
    """`compare STAGE` compares the attempts of the stage and lists the changed script."""
    place = _fitted(tmp_path)
    text = place.call("compare", "stage-1").out
    assert "2.261 ± 0.010 J" in text
    assert "+0.0111 (0.8 σ)" in text
    found = {(row["kind"], row["name"]): row for row in place.done("compare", ONE, TWO)["rows"]}
    assert found["metric", "T_c"]["difference"][TWO]["sigma"] == pytest.approx(0.785, abs=1e-3)
    assert found["script", "fit.py"]["same"] is False
    table = csv.DictReader(io.StringIO(place.call("-o", "csv", "compare", ONE, TWO).out))
    rows = {(row["kind"], row["name"]): row for row in table}
    assert float(rows["metric", "T_c"][TWO]) == 2.2723
    assert float(rows["error", "T_c"][TWO]) == 0.01


@pytest.mark.long
def test_compare_runs_prints_a_sorted_table(tmp_path: Path) -> None:
    """Each run is a line; the error for an unknown column lists the columns."""
    place = _fitted(tmp_path)
    lines = place.call("compare", "stage-1", "--runs", "--sort", "-T_c").out.splitlines()
    assert lines[0].split()[:2] == ["SIDE", "T_c"]
    assert [line.split()[0] for line in lines[1:]] == [TWO, ONE]
    found = place.done("compare", "stage-1", "--runs", "--sort", "T_c")
    assert [one["T_c"] for one in found] == [2.2612, 2.2723]
    wrong = place.json("compare", "stage-1", "--runs", "--sort", "nu")
    assert (wrong.code, "side, T_c" in wrong.error["message"]) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize("git", [True, False])
def test_compare_text_reads_scripts_from_root_or_git(tmp_path: Path, git: bool) -> None:
    """`--text` shows changed lines. If a version is lost, the error names its attempt."""
    place = _fitted(tmp_path, git=git)
    answer = place.json("compare", ONE, TWO, "--text", "fit.py")
    if not git:
        assert (answer.code, ONE in answer.error["message"]) == (3, True)
        return
    assert "-print(json.dumps({'tc': 2.2612, 'error': 0.01}))" in answer.data["lines"]
    assert place.json("compare", ONE, TWO, "--text", "other.py").code == 3


@pytest.mark.long
@COPIES
def test_compare_accepts_stages_of_two_workflows(tmp_path: Path, kind: str) -> None:
    """A stage and its copy have the same metric. A lost script version is reported."""
    place = _fitted(tmp_path)
    other = _copied(place, kind)
    (place.path / "fit.py").write_text("print(1)\n")
    sides = (f"{place.path}/{TWO}", f"{other}/{TWO}")
    text = call("-o", "json", "compare", *sides, "--text", "fit.py")
    assert (text.code, sides[0] in text.error["message"]) == (3, True)
    found = call("-o", "json", "compare", f"{place.path}/stage-1", f"{other}/stage-1").data["rows"]
    (number,) = [row for row in found if row["kind"] == "metric"]
    assert (number["name"], number["same"]) == ("T_c", True)


ENERGY = {"at": "e.json#/e", "unit": "J", "better": "lower"}


@pytest.mark.long
def test_compare_accepts_a_trailing_slash(tmp_path: Path) -> None:
    """`compare` ignores a slash after a stage, folder or archive, as shells add it."""
    place = _fitted(tmp_path)
    archive = place.path.parent / "COPY.ZIP"
    place.done("export", "archive", str(archive))
    assert place.done("compare", "stage-1/")["sides"] == [ONE, TWO]
    for other in (place.path, archive):
        found = call("-o", "json", "compare", f"{other}/stage-1/").data["sides"]
        assert found == [f"{other}/{ONE}", f"{other}/{TWO}"]


def test_compare_text_finds_a_file_as_input_and_as_output(
    tmp_path: Path,
) -> None:
    """A file that is an output of one side and an input of the other has no differences."""
    one = {**STAGE, "parameters": {"command": "echo 1 > out.txt"}}
    two: dict[str, Any] = {"id": "stage-2", "name": "Read", "depends_on": ["stage-1"]}
    two |= {"inputs": ["stage-1/out.txt"], "outputs": ["stage-2/b"]}
    two["parameters"] = {"command": "cp ../stage-1/out.txt b"}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = write_plan(tmp_path, {"workflow_id": "two", "stages": [one, two]})
    place.done("init", str(plan), "--consent", "trust")
    place.done("run")
    for sides in (("stage-1", "stage-2"), ("stage-1", str(place.path))):
        assert place.done("compare", *sides, "--text", "stage-1/out.txt")["lines"] == []


def _has_unpacked(folder: Path) -> bool:
    """Return whether a subfolder has contents, while other processes may change it."""
    return any(
        folders or files for place, folders, files in os.walk(folder) if place != str(folder)
    )


@pytest.mark.long
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_interrupted_compare_removes_the_unpacked_archive(
    tmp_path: Path, end: signal.Signals
) -> None:
    """After SIGTERM or SIGHUP, `compare` removes its temporary folder."""
    place = made(tmp_path)
    archive = _copied(place, "archive")
    folder = tmp_path / "tmp"
    folder.mkdir()
    environ = {**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(folder)}
    line = [sys.executable, "-m", "cli.main", "compare", str(place.path), str(archive)]
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, text=True) as process:
        while not _has_unpacked(folder) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(end)
        process.communicate(timeout=60)
    assert process.returncode in (128 + end, 0)
    assert list(folder.iterdir()) == []


def test_compare_matches_tasks_of_two_sweeps_by_key(tmp_path: Path) -> None:
    """Tasks with equal keys are compared. Each metric has its unit.

    The metric of the stage names the task that it comes from.
    """
    grid = {"grid": {"T": [1, 2]}}
    like = sweep(tmp_path / "trace", grid, metrics={"energy": ENERGY})
    other = {**like, "id": "stage-2", "outputs": ["stage-2/tasks.csv"]}
    place = begun(tmp_path, like, other)
    place.done("run")
    found = place.done("compare", "stage-1", "stage-2")["rows"]
    assert [row["name"] for row in found if row["kind"] == "metric"] == [
        "energy",
        "T=1 energy",
        "T=2 energy",
    ]
    assert {row["values"]["stage-1"]["unit"] for row in found if row["kind"] == "metric"} == {"J"}
    assert "1 J at T=1" in place.call("compare", "stage-1", "stage-2").out


def test_compare_handles_other_units_and_equal_column_names(
    tmp_path: Path,
) -> None:
    """Other units or an overflow give no difference; equal names get the prefix of their kind."""
    stages = [
        {
            "id": f"stage-{n}",
            "name": "Fit",
            "outputs": [f"stage-{n}/t.json"],
            "parameters": {
                "command": f'echo \'{{"T": {n}, "far": {far}}}\' > t.json',
                "metrics": {
                    "T": {"at": "t.json#/T", "unit": unit},
                    "far": "t.json#/far",
                    "side": "t.json#/T",
                },
                "T": n * 10,
            },
        }
        for n, unit, far in ((1, "J", -1e308), (2, "meV", 1e308))
    ]
    root = tmp_path / "root"
    root.mkdir()
    place = Place(root)
    plan = {"workflow_id": "two", "stages": stages}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    place.done("run")
    found = place.done("compare", "stage-1", "stage-2")["rows"]
    assert [one.get("difference") for one in found if one["name"] in ("T", "far")][:2] == [
        None,
        None,
    ]
    assert "Infinity" not in place.call("-o", "csv", "compare", "stage-1", "stage-2").out
    runs = place.done("compare", "stage-1", "stage-2", "--runs", "--sort", "-parameter T")
    assert [(one["side"], one["metric T"], one["parameter T"]) for one in runs] == [
        ("stage-2", 2, 20),
        ("stage-1", 1, 10),
    ]
