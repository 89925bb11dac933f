"""Keeping a stage's folder as ``stage-2.v1/`` before the stage runs again.

Two renames, so that a crash at any point leaves one of four situations, each told apart by what
exists, and calling again goes on from there. The first may be somebody else's.
What the next run needs is copied first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from eventstore.regular import read_regular
from lifecycle.words.naming import KEPT_PATTERN
from reconciler.attempt.contract import ATTEMPTS, MONITOR_LOCK, WRAPPER
from reconciler.attempt.markers import MARKERS
from reconciler.errors import ReconcilerError
from service.root.disk import sync_folder, write_whole

_NAME = re.compile(KEPT_PATTERN, re.ASCII)
#: Says in a kept folder which keeping it came from.
LABEL = ".kept-as"
#: What an attempt leaves behind beside its outputs.
_OF_ATTEMPTS = frozenset(
    {
        ATTEMPTS,
        MONITOR_LOCK,
        ".dispatch.lock",
        WRAPPER,
        "log",
        "err",
        LABEL,
        *MARKERS,
    }
)


class KeptFolderTaken(ReconcilerError):
    """Something else lies where the outputs are to be kept, or where the stage is to run."""

    code = "kept_folder_taken"

    def __init__(self, stage: str, taken: Path) -> None:
        super().__init__(
            f"{stage}: {taken} is in the way of keeping its outputs and is not wfctl's; move it "
            "aside and try again.",
            stage=stage,
            path=str(taken),
        )


def keep(root: Path, stage: str, kept_as: str, outputs: Iterable[str]) -> bool:
    """Move ``stage`` to ``kept_as`` and give the stage a new folder with all but its results.

    Left out of the copy: ``outputs`` (relative to the root), markers and the records of attempts.
    Somebody may have moved the folder there already, as the log announces it. May be called again
    after a crash, and does nothing once it is done. Returns whether there is a kept folder now.
    Raises `KeptFolderTaken`.
    """
    if not _NAME.fullmatch(kept_as):
        raise ValueError(f"expected the id of a stage with .vK, found {kept_as!r}")
    folder, kept, new = root / stage, root / kept_as, root / f".{stage}.new"
    if not os.path.lexists(kept):
        if not folder.is_dir():
            return False
        _copy(folder, new, _within(stage, outputs))
        write_whole(folder / LABEL, f"{kept_as}\n".encode())
        folder.rename(kept)
        sync_folder(root)
    elif not _is_ours(kept, kept_as):
        if not _was_moved(folder, kept):
            raise KeptFolderTaken(stage, kept)
        _copy(kept, new, _within(stage, outputs))
        write_whole(kept / LABEL, f"{kept_as}\n".encode())
    if new.is_dir():
        if folder.exists() and not _is_empty(folder):
            raise KeptFolderTaken(stage, folder)
        new.rename(folder)
        sync_folder(root)
    return True


def _was_moved(folder: Path, kept: Path) -> bool:
    """Whether somebody moved the stage's folder to the name it is to be kept under.

    The records of its attempts are in it, and nothing is left in its place.
    """
    moved = kept.is_dir() and not kept.is_symlink() and (kept / ATTEMPTS).is_dir()
    return moved and (not os.path.lexists(folder) or _is_empty(folder))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())


def _within(stage: str, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths, relative to the root, as they are called within the stage's folder."""
    found = (os.path.relpath(path, stage) for path in paths)
    return frozenset(path for path in found if not path.startswith(".."))


def _is_ours(kept: Path, kept_as: str) -> bool:
    label = kept / LABEL
    return label.is_file() and read_regular(label).decode(errors="replace") == f"{kept_as}\n"


def _copy(folder: Path, new: Path, outputs: frozenset[str]) -> None:
    if new.exists():
        shutil.rmtree(new)
    top, left_out = str(folder), {os.path.normpath(folder / path) for path in outputs}

    def ignored(where: str, names: list[str]) -> set[str]:
        found = {name for name in names if os.path.normpath(f"{where}/{name}") in left_out}
        found |= {name for name in names if name.startswith(f".{LABEL}.")}  # of a crash
        return found | (_OF_ATTEMPTS & set(names) if where == top else set())

    shutil.copytree(folder, new, symlinks=True, ignore=ignored)
    for place, _, files in os.walk(new):
        for name in files:
            _sync(Path(place) / name)
        sync_folder(Path(place))


def _sync(path: Path) -> None:
    if path.is_symlink():
        return
    with path.open("rb") as file:
        os.fsync(file.fileno())
