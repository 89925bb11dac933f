"""The works as lists of commands for GNU parallel, one list after the other."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.steps_file import group_by_level
from benchmarks.faults.work import Step

NAME = "GNU parallel"
PACKAGES: tuple[str, ...] = ()  # apt install parallel
DOCUMENTATION = (
    "https://www.gnu.org/software/parallel/man.html",
    "https://www.gnu.org/software/parallel/parallel_tutorial.html#resuming-jobs",
)

STATE = ("levels.log", *(f"level-{number}.log" for number in range(1, 7)))

_OPTIONS = "--will-cite --halt now,fail=1 --resume-failed"


def find_version(python: str) -> str:
    """Return the version of the installed program, which is a package of the system."""
    line = ["parallel", "--version"]
    text = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return text.split()[2]


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write a list of commands per level, and a list that runs each level to its end."""
    lines = []
    for number, level in enumerate(group_by_level(steps), start=1):
        name = f"level-{number}"
        (folder / f"{name}.txt").write_text("".join(f"{step.command}\n" for step in level))
        lines.append(f"parallel {_OPTIONS} --jobs 4 --joblog {name}.log --arg-file {name}.txt\n")
    (folder / "levels.txt").write_text("".join(lines))


def command(folder: Path, python: str) -> list[str]:
    """Return the command that runs the levels of the work one after another."""
    options = [*_OPTIONS.split(), "--jobs", "1", "--joblog", "levels.log"]
    return ["parallel", *options, "--arg-file", "levels.txt"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: `--resume-failed` skips what the job log shows as a success."""
    return [command(folder, python)]
