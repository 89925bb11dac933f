"""Files that a new attempt takes over from the earlier attempt, such as checkpoints."""

from __future__ import annotations

import copy
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, is_below
from reconciler.attempt.file_digests import has_recorded_content
from reconciler.attempt.markers import make_folders
from reconciler.attempt.paths import (
    ATTEMPTS,
    KEPT,
    AttemptPaths,
    ScriptEnd,
)
from reconciler.context import JobContext
from reconciler.submission import fields as shape
from service.root.folder_entries import is_file


@dataclass(frozen=True, slots=True)
class CarriedFiles:
    """Files of an earlier attempt with which the next attempt of the stage continues.

    ``source`` is the id of the earlier attempt. ``places`` maps the recorded path of each file to
    its current path.
    """

    source: str
    files: tuple[p.FileDigest, ...]
    places: Mapping[str, Path]


def carry_patterns(stage: Stage) -> list[str]:
    """Return the patterns of the files that a stage passes on to its next attempt.

    They are in the parameter ``carry``. Returns an empty list if the parameter is not a list.
    """
    found = stage.parameters.get("carry")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def find_files_to_carry(jobs: JobContext, stage: Stage) -> CarriedFiles | None:
    """Return the files with which the next attempt of the stage continues, or None.

    The files come from the newest attempt that left such files. Its inputs and its definition must
    be unchanged, and the files themselves too. Raises UnusableSubmission if ``carry`` is not a list
    of strings.
    """
    if stage.parameters.get("carry") is not None:
        shape.check_fields(stage.parameters, {"carry": "a list of strings"}, "parameters.")
    patterns = carry_patterns(stage)
    if not patterns or not stage.parameters.get("command"):
        return None
    # The state is read again, because leftover files of the last attempt may just have been
    # recorded.
    for one in reversed(jobs.service.state().stage(stage.id).attempts):
        if one.outdated_by is not None:
            return None
        found = dict(_find_carried_files(jobs.root, stage.id, one, patterns))
        if not found:
            continue
        changed = [
            f["path"] for f in one.inputs if not has_recorded_content(jobs.root / f["path"], f)
        ]
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
    """Yield the path and the current location of each file that can be carried on.

    A file is at its original path, or was moved aside.
    """
    for file in one.left:
        path, at = file["path"], file.get("at")
        own = path.removeprefix(f"{stage}/")
        fits = is_below(path, stage) and any(fnmatchcase(own, pattern) for pattern in patterns)
        if file.get("link") is not None or not fits:
            continue
        kept = root / stage / ATTEMPTS / one.name / KEPT / path
        places = [root / at] if at is not None else [root / path, kept]
        whole = (
            at
            for at in places
            if not at.is_symlink() and is_file(at) and has_recorded_content(at, file)
        )
        if (place := next(whole, None)) is not None:
            yield path, place


def add_carried_files(
    given: Mapping[str, Any], attempt: AttemptPaths, carried: CarriedFiles
) -> dict[str, Any]:
    """Return a submission that also sends files of an earlier attempt to the job.

    The job moves the files to the paths that its command expects. The new attempt gets hard links
    to the files, or copies if the file system has no hard links.
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
