"""The works as tasks of doit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "doit"
PACKAGES = ("doit==0.37.0",)
DOCUMENTATION = (
    "https://pydoit.org/tasks.html",
    "https://pydoit.org/dependencies.html",
    "https://pydoit.org/uptodate.html#config-changed",
    "https://pydoit.org/cmd-run.html#parallel-execution",
)
STATE = (".doit.db", ".doit.db.db")  # the suffix depends on the dbm library of Python

_TASKS = '''\
import json

from doit.tools import config_changed


def task_step():
    """Define a task for each step."""
    with open("steps.json") as file:
        steps = json.load(file)
    for step in steps:
        yield {
            "name": step["name"],
            "actions": [step["command"]],
            "file_dep": step["inputs"],
            "targets": step["outputs"],
            "uptodate": [config_changed(step["command"])],
        }
'''


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and the file `dodo.py`, which defines a task for each step."""
    write_steps(steps, folder)
    (folder / "dodo.py").write_text(_TASKS)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs up to four tasks at a time."""
    return [python, "-m", "doit", "run", "-n", "4"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: doit skips the tasks that it recorded as up to date."""
    return [command(folder, python)]
