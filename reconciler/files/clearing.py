"""Making room in a stage's folder before it runs again: files cleared, folders kept."""

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

from eventstore.private import read_regular
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
from service.root.disk import is_inside, sync_folder, write_whole


@dataclass(frozen=True, slots=True)
class Carried:
    """Files of an earlier attempt, and where each lies; paths relative to the stage's folder."""

    source: str
    files: tuple[p.FileDigest, ...]
    places: Mapping[str, Path]


def patterns_of(stage: Stage) -> list[str]:
    """Return what a stage carries on, as far as it is said in patterns."""
    found = stage.parameters.get("carry")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def to_carry(jobs: Jobs, stage: Stage) -> Carried | None:
    """Return what the next attempt of the stage goes on from, None if there is nothing.

    Only an attempt that was started from the same definition and the same inputs counts, and only
    files that are still as it left them. Raises UnusableSubmission where ``carry`` is no list of
    texts.
    """
    if stage.parameters.get("carry") is not None:
        shape.check_fields(stage.parameters, {"carry": "a list of text"}, "parameters.")
    patterns = patterns_of(stage)
    if not patterns or not stage.parameters.get("command"):
        return None
    # What the last attempt left may just have been recorded.
    for one in reversed(jobs.service.state().stage(stage.id).attempts):
        if one.outdated_by is not None:
            return None
        found = dict(_left(jobs.root, stage.id, one, patterns))
        if not found:
            continue
        changed = [f["path"] for f in one.inputs if not is_as(jobs.root / f["path"], f)]
        if changed:
            text = f"nothing is carried on from {one.id}: {', '.join(changed)} has changed since"
            jobs.say(f"{stage.id}: {text}", stage=stage.id, attempt=one.id)
            return None
        files = (
            p.FileDigest(path=file["path"], size=file["size"], sha256=file["sha256"])
            for file in one.left
            if file["path"] in found
        )
        return Carried(one.id, tuple(files), found)
    return None


def _left(
    root: Path, stage: str, one: Recorded, patterns: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the files to carry that are where they were put, or were moved aside, each by path."""
    for file in one.left:
        path, at = file["path"], file.get("at")
        own = path.removeprefix(f"{stage}/")
        fits = is_below(path, stage) and any(fnmatchcase(own, pattern) for pattern in patterns)
        if file.get("link") is not None or not fits:
            continue
        kept = root / stage / ATTEMPTS / one.name / KEPT / path
        places = [root / at] if at is not None else [root / path, kept]
        whole = (at for at in places if not at.is_symlink() and at.is_file() and is_as(at, file))
        if (place := next(whole, None)) is not None:
            yield path, place


def sending(given: Mapping[str, Any], attempt: AttemptPaths, carried: Carried) -> dict[str, Any]:
    """Return a submission that sends the files along and puts them where the command finds them.

    The attempt gets them by a second name where the file system knows such, else as copies.
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
        if stage.status is Status.COMPLETED
        for one in stage.attempts[:-1]
        if not (one.is_open or one.taken_over or one is stage.source)
        if older is None or now - datetime.fromisoformat(str(one.ended_at)) >= older
    ]
    least = 1 if larger is None else larger + 1
    return [one for one in found if one is not None and one.size >= least]


def _clearing(attempt: AttemptPaths, one: Recorded) -> Clearing | None:
    """Return what can be freed of an attempt; None if something of it may be at work."""
    if not attempt.folder.is_dir() or attempt.folder.is_symlink():
        return None
    if any(is_held(lock) is not False for lock in traces.told(attempt, OfJob.LOCK)):
        return None
    folders = (*traces.copies_below(attempt.work), attempt.carried)
    folders = tuple(folder for folder in folders if folder.is_dir() and not folder.is_symlink())
    files = dict(_known(attempt, one.left))
    found = (Path(at) / name for one in folders for at, _, names in os.walk(one) for name in names)
    known = (path.lstat() for path in found)
    # What has a second name elsewhere takes no room.
    size = sum(one.st_size for one in known if one.st_nlink == 1)
    size += sum(place.lstat().st_size for place in files)
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
            if not is_inside(place.parent, attempt.folder):
                continue
            link = str(place.readlink()) if place.is_symlink() else None
            if file.get("link") == link and (link or (place.is_file() and is_as(place, file))):
                yield place, file["path"]


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


_NAME = re.compile(KEPT_PATTERN, re.ASCII)
#: Says in a kept folder which keeping it came from.
LABEL = ".kept-as"
#: What an attempt leaves behind beside its outputs.
_OF_ATTEMPTS = frozenset(
    {ATTEMPTS, MONITOR_LOCK, ".dispatch.lock", WRAPPER, "log", "err", LABEL, *MARKERS}
)


class KeptFolderTaken(ReconcilerError):
    """Something else lies where the outputs are to be kept, or where the stage is to run."""

    code = "kept_folder_taken"
    text = (
        "{stage}: {path} is in the way of keeping its outputs and is not wfctl's; move it "
        "aside and try again."
    )
    stage: str
    path: Path


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
    there = os.path.lexists(kept)
    if not there and not folder.is_dir():
        return False
    label = kept / LABEL
    if not label.is_file() or read_regular(label).decode(errors="replace") != f"{kept_as}\n":
        # Somebody may have moved it: the records are in it, and nothing is left in its place.
        moved = kept.is_dir() and not kept.is_symlink() and (kept / ATTEMPTS).is_dir()
        if there and not (moved and (not os.path.lexists(folder) or _is_empty(folder))):
            raise KeptFolderTaken(stage, kept)
        old = kept if there else folder
        within = (os.path.relpath(path, stage) for path in outputs)
        _copy(old, new, frozenset(path for path in within if not path.startswith("..")))
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
        for path in (Path(place) / name for name in files):
            if not path.is_symlink():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        sync_folder(Path(place))
