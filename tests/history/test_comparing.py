"""Attempts, moments and workflows side by side."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

from tests.cli.support import Place, call, write_plan

STAGE = {
    "id": "stage-1",
    "name": "Make",
    "outputs": ["stage-1/out.txt"],
    "parameters": {"command": "echo $WFCTL_PARAM_seed > out.txt", "verify": "true", "seed": 1},
}


def made(folder: Path) -> Place:
    """Return a workflow that was computed twice, with another seed the second time."""
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


def test_two_attempts_stand_beside_each_other_with_what_they_ran_with(tmp_path: Path) -> None:
    """The seed differs, and so the output; what is the same is told with --all."""
    place = made(tmp_path)
    one, two = "stage-1/att-0001", "stage-1/att-0002"
    found = {row["name"]: row for row in place.done("compare", one, two)["rows"]}
    assert found["seed"]["values"] == {one: 1, two: 2}
    assert found["stage-1/out.txt"]["same"] is False
    assert "command" not in found
    every = {row["name"] for row in place.done("compare", one, two, "--all")["rows"]}
    assert {"command", "outcome", "seconds"} <= every
    table = place.call("compare", one, two).out
    assert "SAME" in table
    rows = list(csv.DictReader(io.StringIO(place.call("-o", "csv", "compare", one, two).out)))
    assert next(row for row in rows if row["name"] == "seed")[two] == "2"


def test_moments_and_folders_are_compared(tmp_path: Path) -> None:
    """A copy has the same outputs; the beginning has none."""
    place = made(tmp_path)
    other = tmp_path / "copy"
    shutil.copytree(place.path, other)
    found = place.done("compare", str(place.path), str(other), "1")["rows"]
    output = next(row for row in found if row["kind"] == "output")
    assert output["values"]["1"] is None
    assert output["values"][str(other)] == output["values"][str(place.path)]
    same = place.done("compare", str(place.path), str(other))["rows"]
    assert [row["same"] for row in same] == [True]


def test_what_is_no_side_is_told(tmp_path: Path) -> None:
    """One side alone cannot be compared; an unknown attempt is named with those that exist."""
    place = made(tmp_path)
    assert place.call("compare", "1").code == 2
    assert place.call("compare", "1", "1").code == 2
    missing = place.call("compare", "1", "stage-1/att-0009")
    assert (missing.code, "att-0002" in missing.err) == (3, True)
    assert place.call("compare", "1", "never").code == 2
