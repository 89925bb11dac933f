"""The dotagent archive: the state of a workflow that ended or broke, the last five of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from service.disk import write_whole

KEPT = 5


def keep(folder: Path, workflow: str, at: str, files: Mapping[str, bytes]) -> Path:
    """Keep files as ``{workflow}_{at}/``; ``at`` is UTC in the log's form. Return the folder.

    What was kept before stays as it was; the oldest beyond the last five go.
    """
    target = folder / f"{workflow}_{stamp(at)}"
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (target / name).exists():
            write_whole(target / name, content)
    for old in sorted(_archives(folder), key=_moment)[:-KEPT]:
        shutil.rmtree(old)
    return target


def stamp(at: str) -> str:
    """Return a time as it stands in a folder's name: ``20260331T100000Z``.

    Of what was typed by hand only letters and digits are left.
    """
    return "".join(letter for letter in at[:19] if letter.isalnum()) + "Z"


def _archives(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and "_" in path.name]


def _moment(path: Path) -> tuple[str, str]:
    return path.name.rpartition("_")[2], path.name
