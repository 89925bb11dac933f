"""The works as tasks of pytask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "pytask"
PACKAGES = ("pytask==0.6.0", "pytask-parallel==0.5.5")
DOCUMENTATION = (
    "https://pytask-dev.readthedocs.io/en/stable/tutorials/repeating_tasks_with_different_inputs.html",
    "https://pytask-dev.readthedocs.io/en/stable/how_to_guides/hashing_inputs_of_tasks.html",
    "https://pytask-parallel.readthedocs.io/en/stable/quickstart.html",
)
STATE = (".pytask",)

_TASKS = '''\
import json
import subprocess
from pathlib import Path

from pytask import PythonNode, task

FOLDER = Path(__file__).parent

for step in json.loads((FOLDER / "steps.json").read_text()):

    @task(id=step["name"])
    def task_run(
        command=PythonNode(value=step["command"], hash=True),
        depends_on=[FOLDER / path for path in step["inputs"]],
        produces=[FOLDER / path for path in step["outputs"]],
    ):
        """Run the command of one step."""
        subprocess.run(command, shell=True, check=True)
'''


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and a module that defines a task for each step."""
    write_steps(steps, folder)
    (folder / "task_steps.py").write_text(_TASKS)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs up to four tasks at a time."""
    return [str(Path(python).with_name("pytask")), "build", "-n", "4"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: pytask skips the tasks whose files have not changed."""
    return [command(folder, python)]
