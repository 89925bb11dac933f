"""GNU make: a Makefile with one rule for each step."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME = "GNU make"
PACKAGES: tuple[str, ...] = ()  # apt install make
DOCUMENTATION = (
    "https://www.gnu.org/software/make/manual/html_node/Parallel.html",
    "https://www.gnu.org/software/make/manual/html_node/Interrupts.html",
)
STATE: tuple[str, ...] = ()  # make compares the times of files


def find_version(python: str) -> str:
    """Return the version of the installed program, which is a package of the system."""
    text = subprocess.run(["make", "--version"], capture_output=True, text=True, check=True).stdout
    return text.split()[2]


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the Makefile; its first rule requests the final result."""
    rules = [f"all: {' '.join(steps[-1].outputs)}"]
    rules += [_describe_rule(step) for step in steps]
    (folder / "Makefile").write_text("\n\n".join(rules) + "\n")


def command(folder: Path, python: str) -> list[str]:
    """Run the first rule."""
    return ["make", f"--jobs={JOBS_AT_ONCE}"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the command that runs the work. It also continues an interrupted work."""
    return [command(folder, python)]


def _describe_rule(step: Step) -> str:
    recipe = step.command.replace("$", "$$")
    return f"{' '.join(step.outputs)}: {' '.join(step.inputs)}\n\t{recipe}"
