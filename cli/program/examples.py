"""Read the examples that the help of the commands shows. Imported only for the help."""

from __future__ import annotations

import re
from pathlib import Path

from wfctl_eventstore.extension import find_extension_folders

#: Name of each file with examples. ``python -m tests.cli.help_examples`` writes the outputs into
#: it.
FILE_NAME = "examples.txt"
_HEADING = "== "


def find_example_files() -> list[Path]:
    """Return the files with help examples, of the core program and of each extension."""
    every = [Path(__file__).with_name(FILE_NAME)]
    every += [Path(folder, FILE_NAME) for folder in find_extension_folders()]
    return [file for file in every if file.exists()]


def read_examples() -> dict[str, str]:
    """Return the example of each command, by the name of the command.

    Lines that start with ``$`` are typed by the user, and other lines are output.
    """
    found: dict[str, str] = {}
    for file in find_example_files():
        found |= read_example_file(file)
    return found


def read_example_file(file: Path) -> dict[str, str]:
    """Read a file of examples, and return the example of each command by its name."""
    parts = re.split(rf"^{_HEADING}", file.read_text("utf-8"), flags=re.MULTILINE)[1:]
    examples = (part.partition("\n") for part in parts)
    return {name: example.strip("\n") for name, _, example in examples}


def find_command_lines(example: str) -> list[str]:
    """Return the command lines of an example, without their output."""
    return [line.removeprefix("$ ") for line in example.splitlines() if line.startswith("$ ")]


def find_command_line(name: str) -> str:
    """Return the first command line in the example of a command.

    Return an empty string if the command has no example.
    """
    return next(iter(find_command_lines(read_examples().get(name, ""))), "")


def format_examples(examples: dict[str, str]) -> str:
    """Return the content of a file with these examples."""
    return "".join(f"{_HEADING}{name}\n{example}\n" for name, example in examples.items())
