"""Make room in a stage's folder before the stage runs again: remove files and keep folders."""

from __future__ import annotations

import copy
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any

from eventstore.private_files import read_regular
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow, is_below
from lifecycle.words.values import KEPT_PATTERN
from reconciler.attempt.markers import MARKERS, is_as, make_folders
from reconciler.attempt.paths import (
    ATTEMPTS,
    KEPT,
    MONITOR_LOCK,
    WRAPPER,
    AttemptPaths,
    OfJob,
    ScriptEnd,
)
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError
from reconciler.host.program import is_held
from reconciler.records import traces
from reconciler.submission import fields as shape
from service.root.atomic_files import is_inside, sync_folder, write_whole
from service.root.folder_entries import is_file


@dataclass(frozen=True, slots=True)
class CarriedFiles:
    """Files of an earlier attempt and their locations, relative to the stage's folder."""

    source: str
    files: tuple[p.FileDigest, ...]
    places: Mapping[str, Path]


def carry_patterns(stage: Stage) -> list[str]:
    """Return the patterns of the files that a stage carries on to its next attempt."""
    found = stage.parameters.get("carry")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def find_files_to_carry(jobs: Jobs, stage: Stage) -> CarriedFiles | None:
    """Return the files with which the next attempt of the stage continues, or None.

    Only attempts with the same definition and the same inputs are used, and only files that have
    not changed since. Raises UnusableSubmission if ``carry`` is not a list of strings.
    """
    if stage.parameters.get("carry") is not None:
        shape.check_fields(stage.parameters, {"carry": "a list of strings"}, "parameters.")
    patterns = carry_patterns(stage)
    if not patterns or not stage.parameters.get("command"):
        return None
    # The leftover files of the last attempt may just have been recorded.
    for one in reversed(jobs.service.state().stage(stage.id).attempts):
        if one.outdated_by is not None:
            return None
        found = dict(_find_carried_files(jobs.root, stage.id, one, patterns))
        if not found:
            continue
        changed = [f["path"] for f in one.inputs if not is_as(jobs.root / f["path"], f)]
        if changed:
            text = (
                f"the new attempt does not continue from {one.id}, because {', '.join(changed)} "
                "has changed since"
            )
            jobs.say(f"{stage.id}: {text}", stage=stage.id, attempt=one.id)
            return None
        files = (
            p.FileDigest(path=file["path"], size=file["size"], sha256=file["sha256"])
            for file in one.left
            if file["path"] in found
        )
        return CarriedFiles(one.id, tuple(files), found)
    return None


def _find_carried_files(
    root: Path, stage: str, one: Recorded, patterns: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the files to carry with their current paths, in their original place or moved aside."""
    for file in one.left:
        path, at = file["path"], file.get("at")
        own = path.removeprefix(f"{stage}/")
        fits = is_below(path, stage) and any(fnmatchcase(own, pattern) for pattern in patterns)
        if file.get("link") is not None or not fits:
            continue
        kept = root / stage / ATTEMPTS / one.name / KEPT / path
        places = [root / at] if at is not None else [root / path, kept]
        whole = (at for at in places if not at.is_symlink() and is_file(at) and is_as(at, file))
        if (place := next(whole, None)) is not None:
            yield path, place


def add_carried_files(
    given: Mapping[str, Any], attempt: AttemptPaths, carried: CarriedFiles
) -> dict[str, Any]:
    """Return a submission that sends the carried files to where the command expects them.

    The attempt gets the files as hard links if the file system supports them, otherwise as copies.
    """
    make_folders(attempt)
    for path, source in carried.places.items():
        target = attempt.carried / path.removeprefix(f"{attempt.stage}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
    result = copy.deepcopy(dict(given))
    (task,) = result["task_list"]
    place = f"{ATTEMPTS}/{attempt.name}/carry"
    own = [path.removeprefix(f"{attempt.stage}/") for path in carried.places]
    task["forward_files"] = [*task["forward_files"], *(escape(f"{place}/{path}") for path in own)]
    moving = f"cp -a {shlex.quote(place)}/. . && rm -r {ATTEMPTS} || exit {ScriptEnd.UNWRITABLE:d}"
    task["command"] = f"{moving}\n{task['command']}"
    return result


#: Maximum number of files that an event names. The event counts all files.
_MAX_NAMED_FILES = 500


@dataclass(frozen=True, slots=True)
class Clearing:
    """The files to remove for one attempt, as absolute paths: wfctl's folders, recorded files."""

    stage: str
    attempt: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    #: Where the job wrote the files, relative to the root, in the order of the files.
    written: tuple[str, ...]
    size: int

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all paths that are removed."""
        return (*self.folders, *self.files)


def find_clearings(
    jobs: Jobs,
    state: Workflow,
    only: Sequence[str] | None,
    older: timedelta | None,
    larger: int | None,
) -> list[Clearing]:
    """Return the files that can be removed, for the stages ``only`` if any are named.

    ``older`` selects attempts that ended at least that long ago, ``larger`` attempts with more
    leftover bytes. Raises `UnknownStage`.
    """
    stages = [state.stage(id_) for id_ in only] if only else list(state.stages.values())
    now = jobs.service.clock()
    found = [
        _find_clearing(jobs.attempt(state, stage, one.id), one)
        for stage in stages
        if stage.status is Status.COMPLETED
        for one in stage.attempts[:-1]
        if not (one.is_open or one.taken_over or one is stage.source)
        if older is None or now - datetime.fromisoformat(str(one.ended_at)) >= older
    ]
    least = 1 if larger is None else larger + 1
    return [one for one in found if one is not None and one.size >= least]


def _find_clearing(attempt: AttemptPaths, one: Recorded) -> Clearing | None:
    """Return the files of an attempt that can be removed, or None if the attempt may still run."""
    if not attempt.folder.is_dir() or attempt.folder.is_symlink():
        return None
    if any(is_held(lock) is not False for lock in traces.told(attempt, OfJob.LOCK)):
        return None
    folders = (*traces.copies_below(attempt.work), attempt.carried)
    folders = tuple(folder for folder in folders if folder.is_dir() and not folder.is_symlink())
    files = dict(_find_recorded_files(attempt, one.left))
    found = (Path(at) / name for one in folders for at, _, names in os.walk(one) for name in names)
    known = (path.lstat() for path in found)
    # A file with a second name elsewhere takes no extra space.
    size = sum(one.st_size for one in known if one.st_nlink == 1)
    size += sum(place.lstat().st_size for place in files)
    written = tuple(files.values())
    return Clearing(attempt.stage, attempt.id, folders, tuple(files), written, size)


def _find_recorded_files(
    attempt: AttemptPaths, left: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Path, str]]:
    """Yield the recorded and unchanged files in the attempt's folder, each with its original path.

    The output of the job is kept, because it is small and shows why the attempt was repeated.
    """
    for file in left:
        if file["path"] in attempt.logs:
            continue
        for kept in (attempt.kept, attempt.folder / "kept"):
            place = kept / file["path"]
            if not is_inside(place.parent, attempt.folder):
                continue
            link = str(place.readlink()) if place.is_symlink() else None
            if file.get("link") == link and (link or (is_file(place) and is_as(place, file))):
                yield place, file["path"]


def build_clearing_command(root: Path, one: Clearing) -> p.LeftoversFreed:
    """Return the command that records which files of an attempt are removed."""
    return p.LeftoversFreed(
        stage=one.stage,
        attempt=one.attempt,
        paths=[str(path.relative_to(root)) for path in one.paths[:_MAX_NAMED_FILES]],
        more=max(0, len(one.paths) - _MAX_NAMED_FILES),
        files=list(one.written),
        size=one.size,
    )


def remove_files(one: Clearing) -> None:
    """Remove the files that were recorded as removed."""
    for folder in one.folders:
        shutil.rmtree(folder)
    for file in one.files:
        file.unlink(missing_ok=True)


_KEPT_NAME = re.compile(KEPT_PATTERN, re.ASCII)
#: Name of the file that labels a kept folder with the event that kept it.
LABEL = ".kept-as"
#: Files of an attempt other than its outputs.
_ATTEMPT_FILES = frozenset(
    {ATTEMPTS, MONITOR_LOCK, ".dispatch.lock", WRAPPER, "log", "err", LABEL, *MARKERS}
)


class KeptFolderTaken(ReconcilerError):
    """Something else lies where the outputs are to be kept, or where the stage is to run."""

    code = "kept_folder_taken"
    text = (
        "{stage}: wfctl cannot move the old outputs away, because {path} exists and was not "
        "created by wfctl. Move {path} away and try again."
    )
    stage: str
    path: Path


def move_stage_to_kept_folder(root: Path, stage: str, kept_as: str, outputs: Iterable[str]) -> bool:
    """Rename the folder ``stage`` to ``kept_as``, and create a new folder without the results.

    The new folder also omits the files ``outputs`` (relative to the root), markers and records of
    attempts. A user may already have renamed the folder as announced in the log. Safe to call again
    after a crash; a finished move is not repeated. Returns whether the kept folder now exists.
    Raises `KeptFolderTaken`.
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
        # A user may have moved the folder. The records moved with it, so nothing is left here.
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
