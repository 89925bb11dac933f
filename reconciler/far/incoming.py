"""Decide by the path of a file whether it may be copied from a remote machine.

Files of another machine are as untrusted as an unknown archive. DPDispatcher's process imports this
module too, so it imports only the standard library.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lifecycle.words.scripts import is_importable
from service.root.folder_entries import exists

#: Folders whose files are read as settings or run as programs. Nothing may be written into them.
_FORBIDDEN_FOLDERS = frozenset({".wfctl", ".git"})
#: Name of the folder that contains the attempts of a stage, followed by the names of files that
#: wfctl writes into a stage's folder.
_ATTEMPTS = ".attempts"
_WFCTL_FILES = frozenset(
    {".monitor.lock", ".dispatch.lock", ".kept-as", "submission.json", "dpdisp-run.sh"}
    | {"dpdisp_exit_code", "dpdisp_done"}
)
_MAX_PATH_LENGTH = 4096
#: Name of a file in the folder of an attempt. It lists files that the remote machine must not
#: overwrite.
PROTECTED_RECORD = "protected.json"
_CONTROL_CATEGORIES = frozenset({"Cc", "Zl", "Zp"})


def is_safe_path(path: str) -> bool:
    """Return whether a path stays inside its base folder and is no settings file.

    A path with bytes that are not UTF-8 is allowed. A path with a control character is not.
    """
    steps = path.split("/")
    return (
        len(path) <= _MAX_PATH_LENGTH
        and all(step not in ("", ".", "..") for step in steps)
        and not any(step.lower() in _FORBIDDEN_FOLDERS for step in steps)
        and not any(unicodedata.category(letter) in _CONTROL_CATEGORIES for letter in path)
    )


def is_own_file(path: str) -> bool:
    """Return whether wfctl itself writes the file with this path.

    The path is relative to the root or to the folder of a stage.
    """
    steps = path.lower().split("/")
    return _ATTEMPTS in steps or (len(steps) <= 2 and steps[-1] in _WFCTL_FILES)


class ProtectedFiles(NamedTuple):
    """The files of a root that a remote machine must not overwrite, relative to the root.

    - ``written_here`` are files that wfctl writes itself. They are never overwritten.
    - ``named`` are the scripts of all definitions, the inputs of all stages and the outputs of
      the other stages.
    - ``names`` are names, in lower case, of settings and instructions that programs read
      automatically, in any folder.

    A file in ``named`` or ``names`` is overwritten only if a pattern of the results is its exact
    path.
    """

    root: Path
    written_here: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def is_written_here(self, path: Path) -> bool:
        """Return whether wfctl writes this file itself."""
        return self._is_among(path, self.written_here)

    def is_named_or_autoloaded(self, path: Path) -> bool:
        """Return whether a definition names the file, or a program reads it automatically.

        This is also true if a folder above the file is named or read in this way.
        """
        steps = os.path.relpath(path, self.root).lower().split("/")
        return self._is_among(path, self.named) or not self.names.isdisjoint(steps)

    def has(self, path: Path) -> bool:
        """Return whether the file is protected for any reason."""
        return self.is_written_here(path) or self.is_named_or_autoloaded(path)

    def _is_among(self, path: Path, known: Collection[str]) -> bool:
        steps = os.path.relpath(path, self.root).split("/")
        return any("/".join(steps[:number]) in known for number in range(1, len(steps) + 1))


def read_protected_files(folder: Path) -> ProtectedFiles:
    """Return the protected files that are recorded in an attempt's folder.

    Returns an empty list of files if no record exists. Raises ValueError or TypeError if the record
    cannot be read.
    """
    root, record = folder.parents[2], folder / PROTECTED_RECORD
    if not record.exists():
        return ProtectedFiles(root)
    known = {name: frozenset(paths) for name, paths in json.loads(record.read_bytes()).items()}
    return ProtectedFiles(root, **known)


def is_result(
    base: Path,
    path: str,
    patterns: Iterable[str],
    sent: Iterable[str],
    protected: ProtectedFiles | None = None,
) -> bool:
    """Return whether a path, relative to ``base``, is a result that may be downloaded.

    ``patterns`` are the patterns of results in the submission. A folder that matches a pattern
    includes all its content. Some files need more than a match:

    - A file that exists here and was ``sent`` to the jobs, such as an input or a script, and a
      ``protected`` file must equal a pattern exactly.
    - A file that Python imports must match a pattern without wildcards, because it could change a
      check on this machine.
    - A file that wfctl writes is included only by a pattern that contains `.attempts`. wfctl uses
      such patterns for the results of tasks.
    """
    if not is_safe_path(path) or (protected is not None and protected.is_written_here(base / path)):
        return False
    matching = _find_matching(path, patterns)
    if is_importable(path):  # a check here would import the file, for example as `json`
        matching = [
            pattern for pattern in matching if not _has_wildcards(pattern) and pattern != "."
        ]
    is_sent = exists(base / path) and any(
        _matches_path_or_folder(path, os.path.normpath(p)) for p in sent
    )
    is_sent = is_sent or (protected is not None and protected.is_named_or_autoloaded(base / path))
    return any(not is_sent or _equals_literal_pattern(path, pattern) for pattern in matching)


def is_requested(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches a pattern of the results in a submission.

    The file may still be refused by `is_result`. Such a file is not an error, because a job may
    write it.
    """
    return is_safe_path(path) and bool(_find_matching(path, patterns))


def _find_matching(path: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match a path.

    A file that wfctl writes is matched only by patterns that contain `.attempts`.
    """
    if is_own_file(path):
        patterns = [pattern for pattern in patterns if _ATTEMPTS in pattern.split("/")]
    normal = [os.path.normpath(pattern) for pattern in patterns]
    return [pattern for pattern in normal if _matches_path_or_folder(path, pattern)]


def _matches_path_or_folder(path: str, pattern: str) -> bool:
    """Return whether a pattern matches a path or a folder above it.

    The parts of the path between slashes are compared one by one.
    """
    names, patterns = path.split("/"), pattern.split("/")
    if patterns == ["."]:
        return True
    for place, own in enumerate(patterns):
        if own == "**":
            rest = "/".join(patterns[place + 1 :])
            ends = range(place, len(names))
            return not rest or any(
                _matches_path_or_folder("/".join(names[end:]), rest) for end in ends
            )
        if place == len(names) or not fnmatchcase(names[place], own):
            return False
    return True


def _equals_literal_pattern(path: str, pattern: str) -> bool:
    """Return whether a pattern contains no wildcards and equals the path."""
    return not _has_wildcards(pattern) and fnmatchcase(path, pattern)


def _has_wildcards(pattern: str) -> bool:
    """Return whether a pattern contains wildcards that are not escaped, as in ``[*]``."""
    for escaped in ("[*]", "[?]", "[[]"):
        pattern = pattern.replace(escaped, "")
    return any(letter in pattern for letter in "*?[")


def find_refused_leftovers(paths: Sequence[str], links: Mapping[str, str], stage: str) -> set[str]:
    """Return the leftover files of an attempt that must not be downloaded.

    ``links`` maps each path that is a symbolic link to its target. Refused are links that lead out
    of the stage's folder, paths below a file or a link, and files that wfctl itself writes.
    """
    files = set(paths)
    return {
        path
        for path in paths
        if is_own_file(path)
        or any(str(above) in files for above in PurePosixPath(path).parents)
        or (path in links and not _is_link_inside_stage(stage, path, links[path]))
    }


def _is_link_inside_stage(stage: str, path: str, target: str) -> bool:
    """Return whether the target of a link is in the stage's folder.

    In the target, ``..`` may occur only at the start. Later in the target, it could follow another
    link and lead to an unknown folder.
    """
    steps = [step for step in target.split("/") if step not in ("", ".")]
    upwards = next((n for n, step in enumerate(steps) if step != ".."), len(steps))
    if not target or target.startswith("/") or ".." in steps[upwards:]:
        return False
    place = os.path.normpath(f"{os.path.dirname(path)}/{target}")  # noqa: PTH120 - of a path of bytes
    return place.startswith(f"{stage}/") and is_safe_path(place)
