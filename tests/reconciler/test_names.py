"""Names of inputs and outputs with the characters of patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow
READS = """cat "../data/a[1].txt" "own?.txt" > "out[1].txt"; mkdir "d[*]"; echo b > "d[*]/b" """
TASKS = {"map": {"points": [{"T": 1}]}, "task_outputs": ["o[1]*.txt"]}


def test_inputs_and_outputs_of_a_stage_are_names(tmp_path: Path) -> None:
    """Their brackets, stars and question marks match nothing else."""
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


def test_inputs_and_outputs_of_tasks_are_names(tmp_path: Path) -> None:
    """So it is for each task of a sweep."""
    fields: dict[str, Any] = {"inputs": ["data/a[1].txt"], "outputs": ["stage-1/tasks.csv"]}
    one = stage(1, 'cat "../../../data/a[1].txt" > "o[1]*.txt"', parameters=TASKS, **fields)
    place = made(tmp_path, one)
    (place.path / "data").mkdir()
    (place.path / "data/a[1].txt").write_text("given\n")
    answer = place.call("run")
    assert answer.code == 0, answer
    assert (place.path / "stage-1/tasks/T=1/o[1]*.txt").read_text() == "given\n"


def test_a_missing_input_is_named_as_in_the_plan(tmp_path: Path) -> None:
    """And not as the pattern that DPDispatcher takes."""
    place = made(tmp_path, stage(1, READS, inputs=["data/a[1].txt"], outputs=["stage-1/b"]))
    assert "input data/a[1].txt is missing" in place.call("run").out
