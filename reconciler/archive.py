"""Keeping a stage's folder as ``stage-N.vK/`` before the stage runs again.

Two renames, so that a crash at any point leaves one of four situations, each told apart by what
exists, and calling again goes on from there. What the next run needs is copied first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.markers import MARKERS
from service.disk import sync_folder, write_whole

_NAME = re.compile(r"stage-[1-9][0-9]*\.v[1-9][0-9]*")
#: Says in a kept folder which keeping it came from.
_LABEL = ".kept-as"
#: What an attempt leaves behind beside its outputs.
_OF_ATTEMPTS = frozenset(
    {
        ".attempts",
        ".monitor.lock",
        ".dispatch.lock",
        "dpdisp-run.sh",
        "log",
        "err",
        _LABEL,
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


def keep(root: Path, stage: str, kept_as: str, outputs: Iterable[str]) -> None:
    """Move ``stage`` to ``kept_as`` and give the stage a new folder with all but its results.

    Left out of the copy: ``outputs`` (relative to the root), markers and the records of attempts.
    May be called again after a crash, and does nothing once it is done. Raises `KeptFolderTaken`.
    """
    if not _NAME.fullmatch(kept_as):
        raise ValueError(f"expected stage-N.vK, found {kept_as!r}")
    folder, kept, new = root / stage, root / kept_as, root / f".{stage}.new"
    if not os.path.lexists(kept):
        if not folder.is_dir():
            return
        _copy(root, folder, new, frozenset(outputs))
        write_whole(folder / _LABEL, f"{kept_as}\n".encode())
        folder.rename(kept)
        sync_folder(root)
    elif not _is_ours(kept, kept_as):
        raise KeptFolderTaken(stage, kept)
    if new.is_dir():
        if folder.exists():
            raise KeptFolderTaken(stage, folder)
        new.rename(folder)
        sync_folder(root)


def _is_ours(kept: Path, kept_as: str) -> bool:
    label = kept / _LABEL
    return label.is_file() and label.read_text() == f"{kept_as}\n"


def _copy(root: Path, folder: Path, new: Path, outputs: frozenset[str]) -> None:
    if new.exists():
        shutil.rmtree(new)
    top, left_out = str(folder), {os.path.normpath(root / path) for path in outputs}

    def ignored(where: str, names: list[str]) -> set[str]:
        found = {name for name in names if os.path.normpath(f"{where}/{name}") in left_out}
        found |= {name for name in names if name.startswith(f".{_LABEL}.")}  # of a crash
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
