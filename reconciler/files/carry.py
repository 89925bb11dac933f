"""Checkpoint files that an attempt left, carried into the next attempt of the same definition.

``parameters.carry`` names them by patterns. The next attempt gets copies of its own, so that what
its job does to them changes nothing of what was kept.
"""

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
from reconciler.attempt.contract import ATTEMPTS, KEPT, ScriptEnd
from reconciler.attempt.markers import is_as, make_folders
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs
from reconciler.submission import fields as shape


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
    """Return what the next attempt of the stage goes on from, None where there is nothing.

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
        inputs = (f["path"] for f in one.inputs if not is_as(jobs.root / f["path"], f))
        changed = ", ".join(inputs)
        if changed:
            text = f"{stage.id}: nothing is carried on from {one.id}: {changed} has changed since"
            jobs.say(text, stage=stage.id, attempt=one.id)
            return None
        files = [file for file in one.left if file["path"] in found]
        known = (p.FileDigest(path=f["path"], size=f["size"], sha256=f["sha256"]) for f in files)
        return Carried(one.id, tuple(known), found)
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
        for place in places:
            if not place.is_symlink() and place.is_file() and is_as(place, file):
                yield path, place
                break


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
