"""Move the folder of a stage aside so that its results are kept."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from eventstore.regular_files import read_regular
from lifecycle.words.values import KEPT_PATTERN
from reconciler.attempt.markers import MARKERS
from reconciler.attempt.paths import (
    ATTEMPTS,
    MONITOR_LOCK,
    WRAPPER,
)
from reconciler.errors import ReconcilerError
from reconciler.files.clear_folder import LABEL
from service.root.atomic_files import sync_folder, write_whole

_KEPT_NAME = re.compile(KEPT_PATTERN, re.ASCII)
#: Files in a stage's folder that belong to an attempt and are not outputs.
_ATTEMPT_FILES = frozenset(
    {ATTEMPTS, MONITOR_LOCK, ".dispatch.lock", WRAPPER, "log", "err", LABEL, *MARKERS}
)


class KeptFolderTaken(ReconcilerError):
    """A path that wfctl needs for moving old outputs is occupied by other files."""

    code = "kept_folder_taken"
    text = (
        "{stage}: wfctl cannot move the old outputs away, because {path} exists and was not "
        "created by wfctl. Move {path} away and try again."
    )
    stage: str
    path: Path


def move_stage_to_kept_folder(root: Path, stage: str, kept_as: str, outputs: Iterable[str]) -> bool:
    """Rename the folder ``stage`` to ``kept_as``, and create a new folder for the stage.

    The new folder does not contain the files ``outputs`` (relative to the root), the markers and
    the records of attempts. The user may already have renamed the folder. Safe to call again after
    a crash: a finished move is not repeated. Returns whether the kept folder now exists. Raises
    `KeptFolderTaken` if other files occupy one of the paths.
    """
    if not _KEPT_NAME.fullmatch(kept_as):
        raise ValueError(
            "the name must be the ID of a stage followed by .vK, where K is a number, but it is "
            f"{kept_as!r}"
        )
    folder, kept, new = root / stage, root / kept_as, root / f".{stage}.new"
    there = os.path.lexists(kept)
    if not there and not folder.is_dir():
        return False
    label = kept / LABEL
    if not label.is_file() or read_regular(label).decode(errors="replace") != f"{kept_as}\n":
        # The user may have renamed the folder already. The records of the attempts are then in the
        # kept folder, and the original folder is missing or empty.
        moved = kept.is_dir() and not kept.is_symlink() and (kept / ATTEMPTS).is_dir()
        if there and not (moved and (not os.path.lexists(folder) or _is_empty(folder))):
            raise KeptFolderTaken(stage, kept)
        old = kept if there else folder
        within = (os.path.relpath(path, stage) for path in outputs)
        _copy_without_outputs(
            old, new, frozenset(path for path in within if not path.startswith(".."))
        )
        write_whole(old / LABEL, f"{kept_as}\n".encode())
        if not there:
            folder.rename(kept)
            sync_folder(root)
    if new.is_dir():
        if folder.exists() and not _is_empty(folder):
            raise KeptFolderTaken(stage, folder)
        new.rename(folder)
        sync_folder(root)
    return True


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())


def _copy_without_outputs(folder: Path, new: Path, outputs: frozenset[str]) -> None:
    if new.exists():
        shutil.rmtree(new)
    top, left_out = str(folder), {os.path.normpath(folder / path) for path in outputs}

    def ignored(where: str, names: list[str]) -> set[str]:
        found = {name for name in names if os.path.normpath(f"{where}/{name}") in left_out}
        found |= {name for name in names if name.startswith(f".{LABEL}.")}  # left by a crash
        return found | (_ATTEMPT_FILES & set(names) if where == top else set())

    shutil.copytree(folder, new, symlinks=True, ignore=ignored)
    for place, _, files in os.walk(new):
        for path in (Path(place) / name for name in files):
            if not path.is_symlink():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        sync_folder(Path(place))
