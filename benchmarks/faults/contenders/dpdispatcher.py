"""The works as submissions of DPDispatcher to the local shell, one after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import group_by_level
from benchmarks.faults.work import Step

NAME = "DPDispatcher"
PACKAGES = ("dpdispatcher==1.1.0",)
DOCUMENTATION = (
    "https://docs.deepmodeling.com/projects/dpdispatcher/en/latest/python-api.html",
    "https://docs.deepmodeling.com/projects/dpdispatcher/en/latest/cli.html",
    "https://docs.deepmodeling.com/projects/dpdispatcher/en/latest/context.html",
)
STATE = ("remote",)

_PROGRAM = '''\
import json
from pathlib import Path

from dpdispatcher import Machine, Resources, Submission, Task


def submit(level):
    """Run the tasks of one level to their end, as in the guide to the Python API."""
    machine = Machine.load_from_dict(
        {
            "batch_type": "Shell",
            "context_type": "LocalContext",
            "local_root": str(Path.cwd()),
            "remote_root": str(Path.cwd() / "remote"),
        }
    )
    resources = Resources(
        number_node=1, cpu_per_node=1, gpu_per_node=0, queue_name="", group_size=1
    )
    tasks = [
        Task(
            command=step["command"],
            task_work_path=".",
            forward_files=step["inputs"],
            backward_files=step["outputs"],
            outlog=step["name"] + ".out",
            errlog=step["name"] + ".err",
        )
        for step in level
    ]
    submission = Submission(
        work_base=".", machine=machine, resources=resources, task_list=tasks
    )
    submission.run_submission(check_interval=1, clean=False)


if __name__ == "__main__":
    for level in json.loads(Path("levels.json").read_text()):
        submit(level)
'''


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the steps, in levels, and the program that submits them."""
    levels = [[step._asdict() for step in level] for level in group_by_level(steps)]
    (folder / "levels.json").write_text(json.dumps(levels, indent=1) + "\n")
    (folder / "workflow.py").write_text(_PROGRAM)


def command(folder: Path, python: str) -> list[str]:
    """Return the command that submits level after level."""
    return [python, "workflow.py"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: a submission with the same hash continues its earlier jobs."""
    return [command(folder, python)]
