"""Scripts: the files of a root that a definition runs, and what they are by their digest.

A definition names them and does not hold them: a command is agreed to, and the file that it runs
could be another one the next day. Their digests are recorded where a person agrees and where an
attempt starts, so that a change is told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import file_digest
from itertools import islice
from pathlib import Path, PurePosixPath

from lifecycle.fold.evolve import apply
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import DONE, MAP, is_sweep

#: What a session runs before it touches a stage.
INIT = "init.sh"
#: What Python imports by its name, and how many such files are recorded of an attempt.
_IMPORTED, _MODULES = (".py", ".pyc", ".so"), 200
#: Words of a command line that may be paths; ``--script=check.py`` is two.
_WORDS = re.compile(r"[^\s=;|&<>()$`'\"*?\[\]{}\\]+")
#: The root and an input as a command names them, with quotes around.
_ROOT = re.compile(r"[\"']?\$(?:WFCTL_ROOT\b|\{WFCTL_ROOT\})[\"']?", re.ASCII)
_INPUT = re.compile(r"\$(?:WFCTL_INPUT_(\d+)|\{WFCTL_INPUT_(\d+)\})", re.ASCII)
_ENDINGS = frozenset(
    {".awk", ".bash", ".in", ".inp", ".ipynb", ".jl", ".js", ".lua", ".m", ".pl", ".plt", ".py"}
    | {".r", ".rb", ".sh", ".tcl", ".zsh"}
)


def scripts_of(root: Path, state: Workflow, stage: Stage | None = None) -> dict[str, str]:
    """Return the files that the definition runs, of one stage or of all: path → SHA-256 in hex.

    These are the files that the commands and verify commands name, inputs that are scripts, files
    of a sweep's points, the machine files of the profiles, and ``init.sh``. What a stage makes is
    none of them, and a file that is not there has no digest. Paths are relative to the root where
    they lie below it.
    """
    stages = list(state.stages.values()) if stage is None else [stage]
    made = {path for one in state.stages.values() for path in one.outputs}
    named = sorted({INIT, *(path for one in stages for path in _named(state, one))} - made)
    digests = ((path, digest_of(root, path)) for path in named)
    return {path: digest for path, digest in digests if digest is not None}


def scripts_after(root: Path, state: Workflow, amendment: Amendment) -> dict[str, str]:
    """Return what `scripts_of` returns once the amendment is approved."""
    changed = state.draft()
    apply(changed, amendment)
    return scripts_of(root, changed)


def beside(root: Path, state: Workflow, stage: Stage) -> dict[str, str]:
    """Return the Python files that a script would import by their place: path → SHA-256 in hex.

    They lie beside a script, in the stage's folder, or in the root where it is judged there. Of so
    many that nobody would read them those are left out that come last.
    """
    own = scripts_of(root, state, stage)
    folders = {stage.id, *(str(PurePosixPath(path).parent) for path in own)}
    folders |= {"."} if stage.parameters.get("verify") else set()
    made = {path for one in state.stages.values() for path in one.outputs}
    found = sorted({path for folder in folders for path in _modules(root, folder)} - made)
    digests = ((path, digest_of(root, path)) for path in found if path not in own)
    return dict(islice(((path, one) for path, one in digests if one is not None), _MODULES))


def _modules(root: Path, folder: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / folder))
    except OSError:
        return
    for entry in entries:
        path = os.path.normpath(os.path.join(folder, entry.name))  # noqa: PTH118 - names
        if entry.name.endswith(_IMPORTED):
            yield path
        elif entry.is_dir() and not entry.name.startswith("."):
            yield f"{path}/__init__.py"


def digest_of(root: Path, path: str) -> str | None:
    """Return the SHA-256 of a file in hex, None if there is no file to be read."""
    with suppress(OSError, ValueError):
        if (root / path).is_file():
            with (root / path).open("rb") as stream:
                return file_digest(stream, "sha256").hexdigest()
    return None


def changed(root: Path, recorded: dict[str, str]) -> dict[str, str | None]:
    """Return the scripts that are not what was recorded, each with its digest now."""
    now = {path: digest_of(root, path) for path in recorded}
    return {path: digest for path, digest in now.items() if digest != recorded[path]}


def others(root: Path, state: Workflow) -> list[str]:
    """Return the pinned files that are others now, and those that run and are not pinned."""
    pinned = state.session_config.get("pin")
    if not isinstance(pinned, dict):
        return []
    new = scripts_of(root, state).keys() - pinned.keys()
    found = {*changed(root, pinned), *new}
    return sorted(found - data_left(root, state) if found else found)


def left_by_jobs(state: Workflow) -> set[tuple[str, str]]:
    """Return path and digest of what jobs wrote beside their outputs: nobody changed it."""
    attempts = (attempt for stage in state.stages.values() for attempt in stage.attempts)
    files = (file for attempt in attempts for file in attempt.left)
    return {(file["path"], file["sha256"]) for file in files if file.get("sha256")}


def data_left(root: Path, state: Workflow) -> set[str]:
    """Return the paths of what jobs wrote and left as it is, without scripts of theirs."""
    known = {(path, one) for path, one in left_by_jobs(state) if not _is_script(path)}
    return {path for path, one in known if digest_of(root, path) == one}


def judging(stage: Stage) -> set[str]:
    """Return the paths that the verify commands of a stage name: what its results are judged by."""
    own = _paths(stage, "verify", "")
    if not is_sweep(stage.parameters):
        return {*own}
    # A task is judged in a copy of its folder.
    return {*own, *_paths(stage, "task_verify", _folder(stage))}


def _named(state: Workflow, stage: Stage) -> Iterator[str]:
    points = [stage.parameters[MAP].get("file")] if is_sweep(stage.parameters) else []
    yield from judging(stage)
    yield from _paths(stage, "command", _folder(stage))
    yield from filter(_is_script, _texts(stage.inputs))
    yield from _texts(points)
    for path in filter(_is_script, _texts(stage.parameters.get("forward_files"))):
        yield from _below("", f"{stage.id}/{path}")
    yield from map(os.path.normpath, _texts([state.profile(stage).get("config_path")]))


def _folder(stage: Stage) -> str:
    """Return the folder in which a command runs: each task of a sweep has one of its own."""
    return f"{stage.id}/{DONE}/any" if is_sweep(stage.parameters) else stage.id


def _texts(values: object) -> list[str]:
    listed = values if isinstance(values, list) else []
    return [value for value in listed if isinstance(value, str) and value]


def _is_script(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _ENDINGS


def _paths(stage: Stage, name: str, folder: str) -> Iterator[str]:
    """Yield the words of a command, as it runs in a folder, that may be files below the root."""
    command, up = stage.parameters.get(name), os.path.relpath(".", folder or ".")
    if not isinstance(command, str):
        return

    def path(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        there = 0 < number <= len(stage.inputs)
        return f"{up}/{stage.inputs[number - 1]}" if there else found[0]

    for word in _WORDS.findall(_INPUT.sub(path, _ROOT.sub(up, command))):
        if "/" in word or "." in word:
            yield from _below(folder, word)


def _below(folder: str, word: str) -> Iterator[str]:
    path = os.path.normpath(os.path.join(folder, word))  # noqa: PTH118 - names, and no files yet
    if not path.startswith(("/", "..")) and path != "." and "\0" not in path:
        yield path
