"""wfctl takes special characters such as * in names of inputs and outputs literally."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow
READS = """cat "../data/a[1].txt" "own?.txt" > "out[1].txt"; mkdir "d[*]"; echo b > "d[*]/b" """
TASKS = {"map": {"points": [{"T": 1}]}, "task_outputs": ["o[1]*.txt"]}


def test_special_characters_in_file_names_of_a_stage_are_literal(tmp_path: Path) -> None:
    """Brackets, stars and question marks in a name match only the file of this name."""
    outputs = ["stage-1/out[1].txt", "stage-1/d[*]"]
    one = stage(1, READS, inputs=["data/a[1].txt", "stage-1/own?.txt"], outputs=outputs)
    place = made(tmp_path, one)
    for name in ("data/a[1].txt", "data/a1.txt", "stage-1/own?.txt", "stage-1/own1.txt"):
        (place.path / name).parent.mkdir(exist_ok=True)
        (place.path / name).write_text(f"{name}\n")
    answer = place.call("run")
    assert answer.code == 0, answer
    read = (place.path / "stage-1/out[1].txt").read_text()
    assert read == "data/a[1].txt\nstage-1/own?.txt\n"
    assert (place.path / "stage-1/d[*]/b").is_file()
    assert len(place.done("events", "--type", "attempt.relaunched")) == 0


def test_special_characters_in_file_names_of_tasks_are_literal(tmp_path: Path) -> None:
    """Brackets, stars and question marks in a task's file name match only this file."""
    fields: dict[str, Any] = {"inputs": ["data/a[1].txt"], "outputs": ["stage-1/tasks.csv"]}
    one = stage(1, 'cat "../../../data/a[1].txt" > "o[1]*.txt"', parameters=TASKS, **fields)
    place = made(tmp_path, one)
    (place.path / "data").mkdir()
    (place.path / "data/a[1].txt").write_text("given\n")
    answer = place.call("run")
    assert answer.code == 0, answer
    assert (place.path / "stage-1/tasks/T=1/o[1]*.txt").read_text() == "given\n"


def test_missing_input_is_named_as_in_the_plan(tmp_path: Path) -> None:
    """The error has the name from the plan, not the escaped pattern for DPDispatcher."""
    place = made(tmp_path, stage(1, READS, inputs=["data/a[1].txt"], outputs=["stage-1/b"]))
    assert "input data/a[1].txt does not exist" in place.call("run").out
