"""What attempts before the last good one left behind, and freeing it where somebody asks for it.

Only what lies in such an attempt's own folder is ever taken: its scratch copies, copies that it
went on from, and files that the log names as what it left, as long as they are what the log says.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt.contract import OfJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs
from reconciler.far.brought import digest_of
from reconciler.files.carry import place_of
from reconciler.host.locks import is_held
from reconciler.records import traces
from service.root.below import is_inside

#: Files that an event names; all of them are counted.
_NAMED = 500


@dataclass(frozen=True, slots=True)
class Clearing:
    """What is freed of one attempt: folders of ours, and files that the log names, all absolute."""

    stage: str
    attempt: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    #: Where the job wrote the files, relative to the root, in the same order.
    written: tuple[str, ...]
    size: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """Everything that is removed."""
        return (*self.folders, *self.files)


def clearings(
    jobs: Jobs,
    state: Workflow,
    only: Sequence[str] | None,
    older: timedelta | None,
    larger: int | None,
) -> list[Clearing]:
    """Return what can be freed, of the stages ``only`` where some are named.

    ``older``: of attempts that ended so long ago; ``larger``: of those whose leftovers have more
    bytes. Raises `UnknownStage`.
    """
    stages = [state.stage(id_) for id_ in only] if only else list(state.stages.values())
    now = jobs.service.clock()
    found = [
        _clearing(jobs.attempt(state, stage, one.id), one)
        for stage in stages
        for one in _before_the_good_one(stage)
        if older is None or _age(one, now) >= older
    ]
    least = 1 if larger is None else larger + 1
    return [one for one in found if one is not None and one.size >= least]


def _before_the_good_one(stage: Stage) -> Iterator[Recorded]:
    """Yield the attempts before the one that a completed stage rests on."""
    if stage.status is Status.COMPLETED:
        yield from (one for one in stage.attempts[:-1] if _is_over(stage, one))


def _is_over(stage: Stage, one: Recorded) -> bool:
    return not (one.is_open or one.taken_over or one is stage.source)


def _age(one: Recorded, now: datetime) -> timedelta:
    return now - datetime.fromisoformat(str(one.ended_at))


def _clearing(attempt: AttemptPaths, one: Recorded) -> Clearing | None:
    """Return what can be freed of an attempt; None where something of it may be at work."""
    if not attempt.folder.is_dir() or attempt.folder.is_symlink():
        return None
    if any(is_held(lock) is not False for lock in traces.told(attempt, OfJob.LOCK)):
        return None
    folders = (*traces.copies_below(attempt.work), place_of(attempt))
    folders = tuple(folder for folder in folders if folder.is_dir() and not folder.is_symlink())
    files = dict(_known(attempt, one.left))
    size = sum(map(_size, folders)) + sum(place.lstat().st_size for place in files)
    written = tuple(files.values())
    return Clearing(attempt.stage, attempt.id, folders, tuple(files), written, size)


def _known(attempt: AttemptPaths, left: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Path, str]]:
    """Yield the files in the attempt's folder that are as the log has them, each with its path.

    What its job said stays: it is small, and tells why the attempt was not the last.
    """
    for file in left:
        if file["path"] in attempt.logs:
            continue
        for kept in (attempt.kept, attempt.folder / "kept"):
            place = kept / file["path"]
            if _is_below(place, attempt.folder) and _is(place, file):
                yield place, file["path"]


def _is_below(place: Path, folder: Path) -> bool:
    """Whether a path leads through no link out of the folder."""
    return is_inside(place.parent, folder)


def _is(place: Path, file: Mapping[str, Any]) -> bool:
    if place.is_symlink():
        return file.get("link") == str(place.readlink())
    if file.get("link") is not None or not place.is_file():
        return False
    return place.stat().st_size == file["size"] and digest_of(place) == str(file["sha256"])


def _size(folder: Path) -> int:
    """Return the bytes of the files below a folder that have no second name elsewhere."""
    found = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    known = [path.lstat() for path in found]
    return sum(one.st_size for one in known if one.st_nlink == 1)


def command(root: Path, one: Clearing) -> p.LeftoversFreed:
    """Return the command that records what is freed of an attempt."""
    return p.LeftoversFreed(
        stage=one.stage,
        attempt=one.attempt,
        paths=[str(path.relative_to(root)) for path in one.paths[:_NAMED]],
        more=max(0, len(one.paths) - _NAMED),
        files=list(one.written),
        size=one.size,
    )


def remove(one: Clearing) -> None:
    """Remove what was recorded as freed."""
    for folder in one.folders:
        shutil.rmtree(folder)
    for file in one.files:
        file.unlink(missing_ok=True)
