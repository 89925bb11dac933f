"""Find the Python files that the check of a stage runs or imports."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from lifecycle.state.run_files import find_data_files_from_jobs
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.scripts import IMPORTED, MISSING, has_script_ending
from service.consent.packages import (
    find_imported_names,
    find_imported_names_in_text,
    find_unimported_stdlib_names,
)
from service.consent.scripts import (
    digest_of,
    find_importable_modules,
    find_script_digests,
    find_verify_paths,
)

#: Pattern of the module name after ``-m`` in a command.
_MODULE = re.compile(r"(?<!\S)-m[ \t]*([A-Za-z_]\w*)")


def find_check_files(root: Path, state: Workflow, stage: Stage) -> dict[str, str]:
    """Return the files that a stage's check runs or may import, each with its SHA-256.

    These are the scripts that the check commands name, and the modules that these scripts import,
    directly or through other modules. Modules are searched next to the scripts, in the stage's
    folder and in the workflow folder. A file with the name of a standard module is included if a
    library may import it.
    """
    named_by_it = find_verify_paths(root, stage)
    scripts = find_script_digests(root, state, stage).items()
    own = {path: digest for path, digest in scripts if path in named_by_it}
    found = find_importable_modules(root, state, stage)
    folders = {".", stage.id, *(str(PurePosixPath(path).parent) for path in own)}
    named = {path: {*_list_import_names(path, folders)} for path in found}
    imported = _collect_imported_names(root, own, named, _list_verify_commands(stage))
    return {**{path: found[path] for path, names in named.items() if names & imported}, **own}


def find_loaded_files(root: Path, state: Workflow, stage: Stage) -> set[str]:
    """Return the paths of all files that the check of a stage may load.

    They include the scripts and inputs of the stage. If one of these files has a compiled copy,
    Python loads the copy instead.
    """
    return {
        *find_check_files(root, state, stage),
        *find_script_digests(root, state, stage),
        *stage.inputs,
    }


def find_changed_check_files(
    root: Path, state: Workflow, stage: Stage, recorded: Mapping[str, str]
) -> dict[str, str]:
    """Return the files of a stage's check that differ from the record, with their SHA-256.

    If a check command names a recorded file that no longer exists, its value is `MISSING`. Files
    that a job wrote are left out. New files are included only if they are scripts.
    """
    made = find_data_files_from_jobs(state)
    found = find_check_files(root, state, stage).items()
    now = {path: sha for path, sha in found if path in recorded or _is_code(path)}
    now = {path: sha for path, sha in now.items() if (path, sha) not in made}
    named = find_verify_paths(root, stage) & recorded.keys()
    gone = {path for path in named if digest_of(root, path) is None}
    differ = {path: digest for path, digest in now.items() if recorded.get(path) != digest}
    return {**differ, **dict.fromkeys(gone, MISSING)}


def _is_code(path: str) -> bool:
    return has_script_ending(path) or path.endswith(IMPORTED)


def _list_verify_commands(stage: Stage) -> list[str]:
    found = (stage.parameters.get(name) for name in stage.work.verify_folders)
    return [text for text in found if isinstance(text, str)]


def _list_import_names(path: str, folders: Collection[str]) -> Iterator[str]:
    """Yield the names by which scripts in one of the folders can import a file."""
    parts = PurePosixPath(path).parts
    for folder in folders:
        above = PurePosixPath(folder).parts
        if parts[: len(above)] == above and len(parts) > len(above):
            yield parts[len(above)].partition(".")[0]


def _collect_imported_names(
    root: Path, own: Collection[str], named: Mapping[str, set[str]], commands: list[str]
) -> set[str]:
    """Return the module names that scripts and commands import, directly or indirectly."""
    read, todo = set[str](), {*own}
    names = {
        name
        for text in commands
        for name in (*find_imported_names_in_text(text), *_MODULE.findall(text))
    }
    while todo:
        read |= todo
        names |= {name for path in todo for name in find_imported_names(root / path)}
        todo = {path for path, known in named.items() if known & names} - read
    unused = find_unimported_stdlib_names(
        root, [path for path in read if path.endswith(".py")], commands
    )
    return names | (
        {name for one in named.values() for name in one} & sys.stdlib_module_names - unused
    )
