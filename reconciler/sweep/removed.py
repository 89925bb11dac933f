"""Keeping the folders of tasks that count no longer: no point of the map, or another definition."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, table_of
from reconciler.attempt.markers import set_aside
from reconciler.files.kept_folders import LABEL, KeptFolderTaken
from reconciler.sweep.place import done_folder
from reconciler.sweep.points import points_of
from service.root.disk import write_whole


def keep(root: Path, state: Workflow, stage: Stage) -> bool:
    """Move folders of tasks that are no more, and the table of before, to ``stage-N.vK``.

    All else stays where it is. May be called again after a crash. Returns whether there is a kept
    folder now. Raises `KeptFolderTaken`, and as `points_of`.
    """
    if stage.keep_as is None:
        return False
    kept, done = root / stage.keep_as, done_folder(root, stage.id)
    named = {point.folder for point in points_of(root, state, stage)}
    gone = sorted({f.name for f in done.iterdir()} - named) if done.is_dir() else []
    moves = [(done / name, kept / DONE / name) for name in gone]
    tables = [(root / path, kept / Path(path).name) for path in table_of(stage.id)]
    moves += [(old, new) for old, new in tables if old.exists()]
    if moves:
        _label(stage, kept)
        (kept / DONE).mkdir(exist_ok=True)
    for old, new in moves:
        old.rename(new)
    return kept.exists()


def put_aside(root: Path, stage: Stage, done: Container[str]) -> None:
    """Move each folder that is not ``done`` out of the way, as other outputs of earlier attempts.

    It is kept in the earlier attempt's folder. May be called again after a crash.
    """
    folder = done_folder(root, stage.id)
    previous = stage.attempt.name if stage.attempt else None
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name not in done:
            set_aside(root, stage.id, f"{stage.id}/{DONE}/{found.name}", previous)


def _label(stage: Stage, kept: Path) -> None:
    """Make the folder, with the word that says whose it is."""
    label = kept / LABEL
    if kept.exists() and not label.is_file():
        raise KeptFolderTaken(stage.id, kept)
    kept.mkdir(exist_ok=True)
    write_whole(label, f"{stage.keep_as}\n".encode())
