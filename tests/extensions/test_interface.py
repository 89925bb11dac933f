"""Extensions are found by their folders, and the core names those that are missing."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from cli.program.commands import COMMANDS, GROUPS, SECTIONS
from tests.cli.support import HERE
from tests.extensions.core import copy_without, make_environment, run_command_lines
from wfctl_eventstore.extension import COMMAND_WORDS, Extension, find_extension

INSTALLED = sorted(COMMAND_WORDS)


def test_every_extension_is_installed_and_every_package_is_an_extension() -> None:
    """The list in the core and the folders below extensions/ name the same extensions."""
    folders = {file.parent.name for file in (HERE / "extensions").glob("*/__init__.py")}
    assert folders == set(INSTALLED)


@pytest.mark.parametrize("name", INSTALLED)
def test_extension_adds_the_commands_that_the_core_lists(name: str) -> None:
    """Each command of an extension starts with words that the core lists for it."""
    extension = find_extension(name)
    assert isinstance(extension, Extension)
    words = COMMAND_WORDS[name]
    for command, module in extension.commands.items():
        assert any(command == word or command.startswith(f"{word} ") for word in words), command
        assert module.startswith(f"extensions.{name}.")
        import_module(module)
        assert command not in COMMANDS
    listed = {one for lines in extension.help_sections.values() for one in lines}
    assert set(extension.help_sections) <= set(SECTIONS)
    assert set(extension.groups) <= listed
    assert not set(extension.groups) & set(GROUPS)


QUESTIONS = [name for name, one in vars(Extension).items() if callable(one) and name[0] != "_"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_exactly_one_extension_answers_a_question_of_the_core(question: str) -> None:
    """Exactly one extension implements each optional method that the core may call."""
    found = [name for name in INSTALLED if question in vars(type(find_extension(name)))]
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", [*INSTALLED, None])
def test_core_works_without_an_extension(name: str | None, tmp_path: Path) -> None:
    """Each command line of the core keeps its exit code; a missing command names its extension.

    None stands for a program without any extension.
    """
    deleted = INSTALLED if name is None else [name]
    program = make_environment(copy_without(deleted, tmp_path / "wfctl"))
    folder = tmp_path / "workflow"
    folder.mkdir()
    assert run_command_lines(program, folder) == []
    for one in deleted:
        for word in COMMAND_WORDS[one]:
            done = subprocess.run(
                [program, *word.split()], capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 3
            assert f"needs the extension {one}, which is not installed" in done.stderr
