"""Read the examples of the help: commands with their outputs, loaded only for the help."""

from __future__ import annotations

import re
from pathlib import Path

from wfctl_eventstore.extension import find_folders

#: Name of a file with examples. ``python -m tests.cli.help_examples`` writes the outputs.
FILE_NAME = "examples.txt"
_HEADING = "== "


def find_example_files() -> list[Path]:
    """Return the files with the examples of the core's commands, then of each extension's."""
    every = [Path(__file__).with_name(FILE_NAME)]
    every += [Path(folder, FILE_NAME) for folder in find_folders()]
    return [file for file in every if file.exists()]


def read_examples() -> dict[str, str]:
    """Return the example of each command.

    Lines that start with ``$`` are typed, others are output.
    """
    found: dict[str, str] = {}
    for file in find_example_files():
        found |= read_example_file(file)
    return found


def read_example_file(file: Path) -> dict[str, str]:
    """Read the examples of a file."""
    parts = re.split(rf"^{_HEADING}", file.read_text("utf-8"), flags=re.MULTILINE)[1:]
    examples = (part.partition("\n") for part in parts)
    return {name: example.strip("\n") for name, _, example in examples}


def find_command_lines(example: str) -> list[str]:
    """Return the commands of an example, without their outputs."""
    return [line.removeprefix("$ ") for line in example.splitlines() if line.startswith("$ ")]


def find_command_line(name: str) -> str:
    """Return the first command of the example of a command, or nothing without an example."""
    return next(iter(find_command_lines(read_examples().get(name, ""))), "")


def format_examples(examples: dict[str, str]) -> str:
    """Return the text of the file."""
    return "".join(f"{_HEADING}{name}\n{example}\n" for name, example in examples.items())
