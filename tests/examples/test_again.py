"""A study is sent to a colleague as one file and gives the same numbers there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, wfctl
from tests.need import need_programs

#: Example → its plan, and the replacements in the plan that make the example small.
SMALL: dict[str, tuple[str, dict[str, str]]] = {
    "ising-tc": ("small.toml", {}),
    "lj-diffusion": (
        "plan.toml",
        {
            "T = { from = 0.55, to = 3.40, step = 0.15 }": "T = [1.5, 2.0, 2.5]",
            "steps = 5000": "steps = 2000",
            "segments = 15": "segments = 4",
            "limit = 0.01": "limit = 1.0",
        },
    ),
    "melt-viscosity": (
        "small.toml",
        {"relative_error = 0.1": "relative_error = 0.12", "relative = 0.1": "relative = 0.12"},
    ),
    "sic-conductivity": (
        "small.toml",
        {"relative_error = 0.2": "relative_error = 0.6", "relative = 0.2": "relative = 0.6"},
    ),
    "bead-spring-rg": (
        "plan.toml",
        {
            "steps = 2000000": "steps = 100000",
            "steps = 200000": "steps = 20000",
            "low = 4.4": "low = 1.0",
            "high = 5.1": "high = 9.0",
            "error = 0.05": "error = 1.0",
        },
    ),
}


def numbers(place: Place) -> dict[str, Any]:
    """Return all recorded metrics of a workflow."""
    found = place.done("metrics")["metrics"]
    return {f"{one['stage']}.{one['name']}": one["value"] for one in found}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_exported_study_gives_the_same_numbers_elsewhere(tmp_path: Path, name: str) -> None:
    """A colleague imports the archive, runs it again and gets the same numbers."""
    need_programs("lmp")
    plan, small = SMALL[name]
    here, there = Place(tmp_path / "here"), Place(tmp_path / "there")
    shutil.copytree(HERE / "examples" / name, here.path)
    text = (here.path / plan).read_text("utf-8")
    for before, after in small.items():
        assert before in text
        text = text.replace(before, after)
    (here.path / plan).write_text(text, "utf-8")
    here.done("init", str(here.path / plan), "--consent", "trust")
    assert wfctl("--root", str(here.path), "run", within=300).code == 0, here.log()
    found = numbers(here)
    assert found
    kinds = ("--with", "inputs,outputs,figures,scripts")
    assert here.call("export", "archive", str(tmp_path / "study.zip"), *kinds).code == 0

    other = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home/state")}
    line = ("import", str(tmp_path / "study.zip"), "--into", str(there.path))
    assert wfctl(*line, environ=other).code == 0
    root = ("--root", str(there.path))
    assert wfctl(*root, "results", environ=other).out == here.call("results").out
    assert wfctl(*root, "fsck", environ=other).code == 0
    assert wfctl(*root, "verify", "--deep", environ=other).code == 0
    first = here.done("status")["stages"][0]["id"]
    again = ("--root-is", "copied", "rerun", "--from", first)
    answer = wfctl(*root, *again, environ=other)
    assert answer.code == 0, answer
    answer = wfctl(*root, "run", environ=other, within=300)
    assert answer.code == 0, answer
    assert numbers(there) == found
