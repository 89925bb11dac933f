"""The works as tasks of a Prefect flow, whose results are kept and reused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import write_steps
from benchmarks.faults.work import Step

NAME = "Prefect"
PACKAGES = ("prefect==3.9.1",)
DOCUMENTATION = (
    "https://docs.prefect.io/v3/how-to-guides/workflows/cache-workflow-steps",
    "https://docs.prefect.io/v3/concepts/caching",
    "https://docs.prefect.io/v3/concepts/task-runners",
)
STATE = (".prefect",)

_PROGRAM = """\
import json
import subprocess

from prefect import flow, task
from prefect.cache_policies import INPUTS
from prefect.task_runners import ThreadPoolTaskRunner


@task(persist_result=True, cache_policy=INPUTS)
def run(command):
    subprocess.run(command, shell=True, check=True)


@flow(task_runner=ThreadPoolTaskRunner(max_workers=4))
def work():
    with open("steps.json") as file:
        steps = json.load(file)
    futures = {}
    for step in steps:
        needs = [futures[name] for name in step["needs"]]
        submit = run.with_options(task_run_name=step["name"]).submit
        futures[step["name"]] = submit(step["command"], wait_for=needs)
    for future in futures.values():
        future.result()


if __name__ == "__main__":
    work()
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps and the program that runs them."""
    write_steps(steps, folder)
    (folder / "workflow.py").write_text(_PROGRAM)


def environment(folder: Path) -> dict[str, str]:
    """Keep Prefect's database next to the work, and switch off reports to its developers."""
    home = str(folder / ".prefect")
    return {"PREFECT_HOME": home, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs up to four steps at a time, with a temporary server."""
    return [python, "workflow.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: Prefect skips the tasks whose inputs it has a result for."""
    return [command(folder, python)]
