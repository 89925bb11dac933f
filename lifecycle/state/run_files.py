"""Find the scripts that the commands of a plan run, and the files that jobs wrote."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.scripts import has_script_ending

#: Patterns of the variables for the root and for an input file in a command.
_ROOT = re.compile(r"[\"']?\$(?:WFCTL_ROOT\b|\{WFCTL_ROOT\})[\"']?", re.ASCII)
_INPUT = re.compile(r"\$(?:WFCTL_INPUT_(\d+)|\{WFCTL_INPUT_(\d+)\})", re.ASCII)
#: A word with one of these characters is changed by the shell before the program starts. Its file
#: name is therefore unknown.
_EXPANDED = r"[$`*?\[\]{}~]"


class RunFile(NamedTuple):
    """A file that a command runs as a script. Its path is absolute or relative to the root.

    ``runs`` is False if the file may only be an argument. For a Python module, ``module`` is its
    dotted name, which is searched below ``path`` and in the folders ``search``.
    """

    path: str
    runs: bool
    module: str | None = None
    search: tuple[str, ...] = ()


def find_command_scripts(stage: Stage, name: str, folder: str) -> Iterator[RunFile]:
    """Yield the scripts and program files in a stage's command that runs in ``folder``.

    ``name`` is the parameter that contains the command.
    """
    command = stage.parameters.get(name)
    if not isinstance(command, str):
        return
    from lifecycle.words.commands import find_named_scripts, find_program_files  # slow to load

    for one in find_named_scripts(command):
        place = resolve_relative_path(
            folder, expand_root_and_input_variables(stage, folder, one.folder)
        )
        word = expand_root_and_input_variables(stage, folder, one.name)
        if one.is_module:
            paths = (expand_root_and_input_variables(stage, folder, path) for path in one.search)
            search = tuple(resolve_relative_path(place, path) for path in paths if path)
            yield RunFile(place, runs=True, module=word, search=search)
        elif word and "\0" not in word:
            yield RunFile(
                resolve_relative_path(place, word), runs=one.runs and not re.search(_EXPANDED, word)
            )
    for one in find_program_files(command):
        word = expand_root_and_input_variables(stage, folder, one.name)
        if not word.startswith("/") and not re.search(_EXPANDED, word):
            place = resolve_relative_path(
                folder, expand_root_and_input_variables(stage, folder, one.folder)
            )
            yield RunFile(resolve_relative_path(place, word), runs=True)


def expand_root_and_input_variables(stage: Stage, folder: str, text: str) -> str:
    """Replace the variables for the root and the inputs in a command by paths.

    The paths are relative to ``folder``.
    """
    up = "/".join(".." for _ in folder.split("/")) if folder else "."

    def path(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        there = 0 < number <= len(stage.inputs)
        return f"{up}/{stage.inputs[number - 1]}" if there else found[0]

    return _INPUT.sub(path, _ROOT.sub(up, text))


def resolve_relative_path(folder: str, word: str) -> str:
    """Return the path of a file named relative to a folder, with all ``..`` resolved."""
    return posixpath.normpath(posixpath.join(folder, word))


def map_commands_to_folders(stage: Stage) -> dict[str, str]:
    """Return the parameters of a stage that contain commands, each with its working folder."""
    return {"command": stage.work.command_folder, **stage.work.verify_folders}


def has_command_with_implicit_file(stage: Stage) -> bool:
    """Return whether a command of the stage runs a file only if a file of a certain name exists.

    Examples are ``python -m NAME``, which may also be an installed library, and ``make``.
    """
    return any(
        one.module is not None or (not one.runs and has_script_ending(one.path))
        for name, folder in map_commands_to_folders(stage).items()
        for one in find_command_scripts(stage, name, folder)
    )


def find_data_files_from_jobs(state: Workflow) -> set[tuple[str, str]]:
    """Return path and digest of each data file that a job wrote into its own stage's folder.

    The contents of such a file need no approval, because only the job wrote it. Files that a
    command runs are omitted, because a job could write a script for another stage.
    """
    run = {path for stage in state.stages.values() for path in _run_paths(state, stage)}
    return {
        (path, sha256)
        for stage in state.stages.values()
        for attempt in stage.attempts
        for path, sha256 in _iterate_written_data_files(stage, attempt)
        if path not in run
    }


def _run_paths(state: Workflow, stage: Stage) -> Iterator[str]:
    for name, folder in map_commands_to_folders(stage).items():
        yield from (one.path for one in find_command_scripts(stage, name, folder) if one.runs)
    yield from stage.work.points_files
    machine = state.profile(stage).get("config_path")
    if isinstance(machine, str):
        yield posixpath.normpath(machine)


def _iterate_written_data_files(stage: Stage, attempt: Attempt) -> Iterator[tuple[str, str]]:
    """Yield path and digest of the files, except scripts, that an attempt wrote for its stage."""
    for file in attempt.left:
        path = file["path"]
        is_own = posixpath.normpath(path).startswith(f"{stage.id}/")
        is_data = path not in attempt.exchanged and not has_script_ending(path)
        if is_own and is_data and file.get("sha256"):
            yield path, file["sha256"]
