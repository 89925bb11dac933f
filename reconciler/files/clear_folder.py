"""Make room in the folder of a stage before it runs again.

Files are carried to the next attempt, moved to a kept folder, or removed.
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
from lifecycle.state.workflow import Workflow
from reconciler.attempt.file_digests import has_recorded_content
from reconciler.attempt.paths import (
    AttemptPaths,
    JobRecordSuffix,
)
from reconciler.context import JobContext
from reconciler.host.file_locks import is_lock_held
from reconciler.records import traces
from service.root.folder_entries import is_file
from service.root.paths_within_root import is_inside

#: Maximum number of file names in one event. The event also contains the total number of files.
_MAX_NAMED_FILES = 500


@dataclass(frozen=True, slots=True)
class RemovableFiles:
    """The files of one attempt that can be removed, as absolute paths.

    ``folders`` were created by wfctl, and ``files`` are recorded leftover files. ``size`` is the
    number of bytes that become free.
    """

    stage: str
    attempt: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    #: The paths to which the job wrote the ``files``, in the same order, relative to the root.
    written: tuple[str, ...]
    size: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all paths that are removed."""
        return (*self.folders, *self.files)


def find_removable_files(
    jobs: JobContext,
    state: Workflow,
    only: Sequence[str] | None,
    older: timedelta | None,
    larger: int | None,
) -> list[RemovableFiles]:
    """Return the files that can be removed, for each earlier attempt of completed stages.

    ``only`` limits the result to the named stages. ``older`` selects attempts that ended at least
    that long ago, and ``larger`` attempts that use more bytes than this number. Raises
    `UnknownStage`.
    """
    stages = [state.stage(id_) for id_ in only] if only else list(state.stages.values())
    now = jobs.service.clock()
    found = [
        _find_removable_attempt_files(jobs.attempt(state, stage, one.id), one)
        for stage in stages
        if stage.status is Status.COMPLETED
        for one in stage.attempts[:-1]
        if not (one.is_open or one.taken_over or one is stage.source)
        if older is None or now - datetime.fromisoformat(str(one.ended_at)) >= older
    ]
    least = 1 if larger is None else larger + 1
    return [one for one in found if one is not None and one.size >= least]


def _find_removable_attempt_files(attempt: AttemptPaths, one: Recorded) -> RemovableFiles | None:
    """Return the files of an attempt that can be removed.

    Returns None if the attempt has no folder or may still be running.
    """
    if not attempt.folder.is_dir() or attempt.folder.is_symlink():
        return None
    if any(
        is_lock_held(lock) is not False
        for lock in traces.list_job_record_files(attempt, JobRecordSuffix.LOCK)
    ):
        return None
    folders = (*traces.list_copies_in_folder(attempt.work), attempt.carried)
    folders = tuple(folder for folder in folders if folder.is_dir() and not folder.is_symlink())
    files = dict(_find_removable_leftovers(attempt, one.left))
    found = (Path(at) / name for one in folders for at, _, names in os.walk(one) for name in names)
    known = (path.lstat() for path in found)
    # Removing one of several hard links to a file frees no space.
    size = sum(one.st_size for one in known if one.st_nlink == 1)
    size += sum(place.lstat().st_size for place in files)
    written = tuple(files.values())
    return RemovableFiles(attempt.stage, attempt.id, folders, tuple(files), written, size)


def _find_removable_leftovers(
    attempt: AttemptPaths, left: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Path, str]]:
    """Yield the recorded leftover files in the attempt's folder that can be removed.

    Each file is unchanged since it was recorded, and is followed by the path to which the job wrote
    it. The output of the job is not included, because it is small and shows why the attempt was
    repeated.
    """
    for file in left:
        if file["path"] in attempt.logs:
            continue
        for kept in (attempt.kept, attempt.folder / "kept"):
            place = kept / file["path"]
            if not is_inside(place.parent, attempt.folder):
                continue
            link = str(place.readlink()) if place.is_symlink() else None
            if file.get("link") == link and (
                link or (is_file(place) and has_recorded_content(place, file))
            ):
                yield place, file["path"]


def build_removal_command(root: Path, one: RemovableFiles) -> p.LeftoversFreed:
    """Build the command that records the removal of an attempt's files."""
    return p.LeftoversFreed(
        stage=one.stage,
        attempt=one.attempt,
        paths=[str(path.relative_to(root)) for path in one.paths[:_MAX_NAMED_FILES]],
        more=max(0, len(one.paths) - _MAX_NAMED_FILES),
        files=list(one.written),
        size=one.size,
    )


def remove_files(one: RemovableFiles) -> None:
    """Remove the files of an attempt after their removal was recorded."""
    for folder in one.folders:
        shutil.rmtree(folder)
    for file in one.files:
        file.unlink(missing_ok=True)


#: Name of a file in a kept folder. It names the kept folder, so that an unfinished move is
#: recognized.
LABEL = ".kept-as"
