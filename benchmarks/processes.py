"""Whole processes: what a person or an agent waits for."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.measurement import in_fresh_folder

PLAN = """\
workflow_id = "bench"
experiment_design = "bench"
[[stages]]
id = "stage-1"
name = "one"
outputs = ["stage-1/out"]
"""
IMPORTS = "import typer, pydantic, sqlalchemy"
RUNS_A_ROUND = 5


def report(rounds: int, disk: Path) -> str:
    """`wfctl append` in a small workflow beside the imports that it stands on."""
    seconds: dict[str, list[float]] = {}

    in_fresh_folder(partial(_runs, rounds * RUNS_A_ROUND, seconds), disk)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    base = medians[IMPORTS]
    rows = [f"| `{n}` | {m * 1000:.0f} | {m / base:.2f} x |" for n, m in medians.items()]
    head = [
        "### Whole processes",
        "",
        "| command | median, ms | of the imports |",
        "|---|---:|---:|",
    ]
    return "\n".join([*head, *rows, ""])


def _runs(number: int, seconds: dict[str, list[float]], folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN)
    _timed([*_wfctl(), "init", "plan.toml"], folder)
    for _ in range(number):
        for name, command in _commands():
            seconds.setdefault(name, []).append(_timed(command, folder))


def _wfctl() -> list[str]:
    return [sys.executable, "-m", "cli.main"]


def _commands() -> Sequence[tuple[str, list[str]]]:
    data = '{"text": "all is well"}'
    return [
        (IMPORTS, [sys.executable, "-c", IMPORTS]),
        ("wfctl append note.logged", [*_wfctl(), "append", "note.logged", "--data", data]),
        ("wfctl status", [*_wfctl(), "status"]),
    ]


def _timed(command: list[str], folder: Path) -> float:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=folder, capture_output=True, env=environment)
    return time.perf_counter() - start
