"""The works as Parsl apps, with a checkpoint after each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "Parsl"
PACKAGES = ("parsl==2026.10.26",)
DOCUMENTATION = (
    "https://parsl.readthedocs.io/en/stable/userguide/workflows/checkpoints.html",
    "https://parsl.readthedocs.io/en/stable/userguide/apps/bash.html",
    "https://parsl.readthedocs.io/en/stable/stubs/parsl.executors.ThreadPoolExecutor.html",
)
STATE = ("runinfo",)

_PROGRAM = """\
import json

import parsl
from parsl import File, bash_app
from parsl.config import Config
from parsl.dataflow.memoization import BasicMemoizer, id_for_memo
from parsl.executors import ThreadPoolExecutor


@id_for_memo.register(File)
def hash_file(file, output_ref=False):
    if output_ref:
        return file.filepath.encode()
    with open(file.filepath, "rb") as content:
        return file.filepath.encode() + content.read()


@bash_app(cache=True)
def run(command, inputs=(), outputs=()):
    return command


config = Config(
    executors=[ThreadPoolExecutor(max_threads=4)],
    memoizer=BasicMemoizer(checkpoint_mode="task_exit"),
)
with open("steps.json") as file:
    steps = json.load(file)
with parsl.load(config):
    futures, files = [], {}
    for step in steps:
        inputs = [files.get(path, File(path)) for path in step["inputs"]]
        outputs = [File(path) for path in step["outputs"]]
        futures.append(run(step["command"], inputs=inputs, outputs=outputs))
        files.update(zip(step["outputs"], futures[-1].outputs))
    for future in futures:
        future.result()
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and the program that runs them."""
    write_steps(steps, folder)
    (folder / "workflow.py").write_text(_PROGRAM)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs up to four steps at a time."""
    return [python, "workflow.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: Parsl loads the checkpoints of all earlier runs by default."""
    return [command(folder, python)]
