"""An agent without a model: `python scripted.py` does the task that its environment names.

The agent uses only the command line and may be killed at any point, because each of its actions can
be repeated safely.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

STAGE = os.environ["WFCTL_STAGE"]
#: The exit code of a command that only a person may run.
NEEDS_PERSON = 6


def wfctl(*arguments: str, code: int = 0) -> Any:
    """Run a command, check its exit code, and return its JSON answer."""
    words = [sys.executable, "-m", "cli.main", "-o", "json", *arguments]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{arguments} ended with {done.returncode}: {done.stdout}")
    return json.loads(done.stdout)


def compute() -> None:
    """Write and dispatch a job submission, or propose a finer tolerance if it is coarse."""
    parameters = wfctl("show", STAGE)["data"]["parameters"]
    if parameters.get("tolerance") == "coarse":
        ask_for_a_finer_one()
        return
    folder = Path(STAGE)
    folder.mkdir(exist_ok=True)
    (folder / "submission.json").write_text(json.dumps(submission(parameters["text"])))
    wfctl("dispatch", STAGE, "--sync")


def ask_for_a_finer_one() -> None:
    """Propose the change, and check that an agent cannot approve it."""
    change = ("--stage", STAGE, "--set", "parameters.tolerance=fine", "--reason", "too coarse")
    wfctl("amend", "propose", *change, "--command-id", f"finer {STAGE}")
    wfctl("amend", "approve", "amend-1", code=NEEDS_PERSON)


def submission(text: str) -> dict[str, Any]:
    """Return a job that adds a line to the trace and writes the output."""
    trace = f'echo "$WFCTL_ATTEMPT" >> {shlex.quote(str(Path.cwd()))}/trace'
    return {
        "work_base": "./",
        "machine": {
            "batch_type": "Shell",
            "context_type": "LocalContext",
            "local_root": "./",
            "remote_root": "./",
        },
        "resources": {
            "number_node": 1,
            "cpu_per_node": 1,
            "gpu_per_node": 0,
            "queue_name": "",
            "group_size": 1,
        },
        "task_list": [
            {
                "command": f"{trace}; echo {text} > out.txt",
                "task_work_path": STAGE,
                "forward_files": [],
                "backward_files": ["out.txt"],
            }
        ],
    }


def repair() -> None:
    """Repair a failed stage one step further, and retry it; the second retry succeeds."""
    stage = wfctl("show", STAGE)["data"]
    if stage["status"] != "failed":
        return  # An agent that was killed has already done it.
    number = stage["retry_count"] + 1
    Path("mended").write_text(f"{number}\n")
    wfctl(
        "stage",
        "retry",
        STAGE,
        "--fix",
        f"mended it, try {number}",
        "--command-id",
        f"{STAGE} {number}",
    )


def judge() -> None:
    """Read the output, and complete the stage with evidence."""
    text = Path(STAGE, "out.txt").read_text().strip()
    wfctl("stage", "complete", STAGE, "--evidence", f"it says {text!r}")


if __name__ == "__main__":
    {"compute": compute, "repair": repair, "judge": judge}[os.environ["WFCTL_TASK"]]()
