"""The works as durable workflows of DBOS, with its default database, SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import group_by_level
from benchmarks.faults.work import Step

NAME = "DBOS"
PACKAGES = ("dbos==3.4.0",)
DOCUMENTATION = (
    "https://docs.dbos.dev/python/programming-guide",
    "https://docs.dbos.dev/python/reference/queues",
    "https://docs.dbos.dev/python/tutorials/step-tutorial#configurable-retries",
    "https://docs.dbos.dev/python/tutorials/workflow-tutorial#workflow-ids-and-idempotency",
    "https://docs.dbos.dev/self-hosting#self-hosting-on-a-single-server",
)
STATE = ("work.sqlite", "work.sqlite-wal", "work.sqlite-shm")

_PROGRAM = """\
import json
import subprocess

from dbos import DBOS, SetWorkflowID

DBOS(config={"name": "work"})


@DBOS.step(retries_allowed=True)
def run(command):
    subprocess.run(command, shell=True, check=True)


@DBOS.workflow()
def run_one(command):
    run(command)


@DBOS.workflow()
def run_levels(levels):
    for level in levels:
        handles = [DBOS.enqueue_workflow("steps", run_one, command) for command in level]
        for handle in handles:
            handle.get_result()


if __name__ == "__main__":
    with open("levels.json") as file:
        levels = json.load(file)
    DBOS.launch()
    DBOS.register_queue("steps", worker_concurrency=4)
    with SetWorkflowID("work"):
        handle = DBOS.start_workflow(run_levels, levels)
    handle.get_result()
    DBOS.destroy()
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the commands of the steps, in levels, and the program that runs them."""
    levels = [[step.command for step in level] for level in group_by_level(steps)]
    (folder / "levels.json").write_text(json.dumps(levels))
    (folder / "main.py").write_text(_PROGRAM)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that starts the program."""
    return [python, "main.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: a restarted program continues its pending workflows."""
    return [command(folder, python)]
