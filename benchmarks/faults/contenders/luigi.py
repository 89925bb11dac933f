"""The works as tasks of Luigi."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "Luigi"
PACKAGES = ("luigi==3.8.1",)
DOCUMENTATION = (
    "https://luigi.readthedocs.io/en/stable/tasks.html",
    "https://luigi.readthedocs.io/en/stable/running_luigi.html",
    "https://luigi.readthedocs.io/en/stable/luigi_patterns.html#atomic-writes-problem",
)
STATE: tuple[str, ...] = ()  # Luigi only looks for the outputs

_PROGRAM = '''\
import json
import shlex
import subprocess
import sys

import luigi

with open("steps.json") as file:
    STEPS = {step["name"]: step for step in json.load(file)}


class Run(luigi.Task):
    """Run the command of one step."""

    name = luigi.Parameter()

    def requires(self):
        return [Run(name) for name in STEPS[self.name]["needs"]]

    def output(self):
        return luigi.LocalTarget(STEPS[self.name]["outputs"][0])

    def run(self):
        words = shlex.split(STEPS[self.name]["command"])
        with self.output().temporary_path() as path:
            words = [path if word == self.output().path else word for word in words]
            subprocess.run(words, check=True)


if __name__ == "__main__":
    tasks = [Run(name) for name in STEPS]
    sys.exit(not luigi.build(tasks, local_scheduler=True, workers=4))
'''


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and the program that runs them."""
    write_steps(steps, folder)
    (folder / "workflow.py").write_text(_PROGRAM)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs up to four tasks at a time."""
    return [python, "workflow.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: Luigi skips the tasks whose outputs exist."""
    return [command(folder, python)]
