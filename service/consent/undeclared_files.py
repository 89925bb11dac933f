"""Find data files that a script names but that its stage does not declare."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from eventstore.regular_files import read_regular
from lifecycle.state.workflow import Stage, Workflow
from service.consent.scripts import find_importable_modules, find_script_digests, find_verify_paths
from service.root.folder_entries import is_file

#: Pattern of words in a script that may be paths. A word needs a dot or a slash.
_NAMES = re.compile(r"[^\s'\"`()\[\]{}=,:;|&<>#$*?\\]*[./][^\s'\"`()\[\]{}=,:;|&<>#$*?\\]*")
#: Maximum size in bytes of a script to search for file names.
_LONGEST_SCRIPT = 10**6


class UndeclaredFile(NamedTuple):
    """A file that a script names. Both paths are relative to the workflow folder."""

    script: str
    path: str


def find_undeclared_files(root: Path, state: Workflow, stage: Stage) -> list[UndeclaredFile]:
    """Return the files that the check scripts of a stage name, but that no stage declares.

    A check reads such a file directly in the workflow folder, so wfctl would not notice a change of
    the file. Declared files are the inputs and outputs of all stages, scripts, and modules next to
    a script. A name in a script is tried as a path from the workflow folder, the stage's folder and
    the script's folder.
    """
    scripts = find_script_digests(root, state, stage)
    read_in_place = {*find_verify_paths(root, stage)} & scripts.keys()
    declared = {*scripts, *find_importable_modules(root, state, stage)}
    for one in state.stages.values():
        declared |= {os.path.normpath(path) for path in (*one.inputs, *one.outputs)}
    found = []
    for script in sorted(read_in_place):
        folders = (".", stage.id, os.path.dirname(script))  # noqa: PTH120 - a name
        for path in _named_files(root, script, folders):
            if path not in declared and not _is_below(path, declared):
                declared.add(path)
                found.append(UndeclaredFile(script, path))
    return found


def _named_files(root: Path, script: str, folders: Collection[str]) -> Iterator[str]:
    try:
        text = read_regular(root / script, _LONGEST_SCRIPT).decode("utf-8", "replace")
    except OSError:
        return
    for name in dict.fromkeys(_NAMES.findall(text)):
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - a name
            if not path.startswith(("/", "..", ".wfctl")) and is_file(root / path):
                yield path


def _is_below(path: str, folders: Collection[str]) -> bool:
    """Return whether the path is inside one of the given folders."""
    parts = path.split("/")
    return any("/".join(parts[:number]) in folders for number in range(1, len(parts)))
