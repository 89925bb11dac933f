"""The works as stages of a DVC pipeline."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.work import Step

NAME = "DVC"
PACKAGES = ("dvc==3.67.1",)
DOCUMENTATION = (
    "https://dvc.org/doc/user-guide/project-structure/dvcyaml-files",
    "https://dvc.org/doc/command-reference/repro",
    "https://dvc.org/doc/command-reference/init#initializing-dvc-without-git",
)
STATE = (".dvc", "dvc.lock")


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write `dvc.yaml` (JSON is valid YAML), and make the folder a DVC project without git."""
    stages = {
        step.name: {
            "cmd": step.command,
            "deps": list(step.inputs),
            "outs": list(step.outputs),
        }
        for step in steps
    }
    (folder / "dvc.yaml").write_text(json.dumps({"stages": stages}, indent=1) + "\n")
    line = [python, "-m", "dvc", "init", "--no-scm", "--quiet"]
    subprocess.run(line, cwd=folder, env=os.environ | environment(folder), check=True)


def environment(folder: Path) -> dict[str, str]:
    """Return the variable that switches off the reports to the developers of DVC."""
    return {"DVC_NO_ANALYTICS": "1"}


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs the stages one after the other."""
    return [python, "-m", "dvc", "repro"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: DVC skips the stages that have not changed."""
    return [command(folder, python)]
