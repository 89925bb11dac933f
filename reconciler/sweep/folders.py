"""The folders of a sweep: where its tasks lie, and their marks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lifecycle.sweeps.definition import DONE
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import processes as plain

#: In the folder of a task that is done: the attempt, its number, when it ended, its origin.
MARK = ".wfctl-done"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of an attempt's tasks, and what lies in it."""

    folder: Path

    @property
    def head(self) -> Path:
        """What the tasks are computed from, and which points they are."""
        return self.folder / "head.json"

    @property
    def list(self) -> Path:
        """A line for each task: number, folder, assignments of its values."""
        return self.folder / "list"

    @property
    def points(self) -> Path:
        """A copy of the file that names the points, where one does."""
        return self.folder / "points"

    @property
    def record(self) -> Path:
        """What became of each task, once the attempt is over."""
        return self.folder / "record.jsonl"


def place_of(attempt: AttemptPaths) -> Place:
    """Return where the attempt keeps its tasks."""
    return Place(attempt.folder / "tasks")


def done_folder(root: Path, stage: str) -> Path:
    """Return the folder that holds a folder for each task of the stage that is done."""
    return root / stage / DONE


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
