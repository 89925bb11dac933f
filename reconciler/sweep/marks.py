"""The marks in the folders of tasks that are done: they tell what the rest of an attempt may not.

A worker puts one in place with the folder. Journals may be cut off and an attempt's folder may be
lost; what lies in a task's own folder says that it is done, and what it was computed from.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from reconciler.host import small_files as plain
from reconciler.sweep.place import MARK, done_folder


@dataclass(frozen=True, slots=True)
class TaskMark:
    """What a mark says: the tag of the attempt, when it ended (µs since the epoch), and from what.

    ``origin`` is what its tasks rest on, as `tasks.origin_of` spells it; marks of earlier
    versions have none.
    """

    tag: str
    ended: int
    origin: str = ""


def in_place(root: Path, stage: str, folders: Collection[str]) -> dict[str, TaskMark]:
    """Return the marks in those of the stage's task folders that are there, by folder."""
    done = done_folder(root, stage)
    if not folders or not done.is_dir():
        return {}
    there = {folder.name for folder in done.iterdir()}.intersection(folders)
    found = {name: _mark(plain.text(done / name / MARK)) for name in there}
    return {name: mark for name, mark in found.items() if mark is not None}


def _mark(text: str) -> TaskMark | None:
    match text.rstrip("\n").split("\t"):
        case [tag, _, at, *origin] if text.endswith("\n") and len(origin) <= 1:
            return TaskMark(tag, micros(at), *origin)
    return None


def micros(text: str) -> int:
    """Return the microseconds of bash's EPOCHREALTIME, whose mark is the locale's."""
    digits = "".join(letter for letter in text if letter.isdigit())
    return int(digits) if digits else 0
