"""Where an attempt of a sweep keeps its tasks. Paths alone: nothing here looks at the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lifecycle.sweeps.definition import DONE
from reconciler.attempt.paths import AttemptPaths

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
