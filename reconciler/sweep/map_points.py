"""Read the points of a sweep from its definition, a file, and the rounds of a loop."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.errors import Refused
from lifecycle.state.conditions import find_point_source_stages, points_added_by_rounds
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import MAP, find_conflicting_parameters, is_sweep
from lifecycle.sweeps.points import Point, UnusableMap, build_points, list_value_names
from lifecycle.sweeps.replicates import replicate_points
from reconciler.attempt.paths import recorded_attempt_paths
from reconciler.errors import MissingInput, ReconcilerError
from reconciler.host import small_files as plain
from wording import TemplatedError


class ChangedMap(TemplatedError, Refused):
    """The file with the points of a sweep differs from the digest in the definition."""

    code = "changed_map"
    text = (
        "the file {path} with the points of the sweep {stage} has changed: its SHA-256 must be "
        "{expected}, but it is {found}. Restore the file, or propose the new file: `wfctl amend "
        'propose --stage {stage} --set \'parameters.map={{"file": …, "sha256": …}}\' '
        "--reason TEXT`."
    )
    stage: str
    path: str
    expected: str
    found: str


class UnfitMap(TemplatedError, Refused):
    """The definition of a sweep's points is not usable, or their file cannot be read."""

    code = "unfit_map"
    text = "{stage}.parameters.map: {why}. Change parameters.map by an amendment."
    stage: str
    why: str


def points_of(
    root: Path, state: Workflow, stage: Stage, *, anew: bool = False
) -> tuple[Point, ...]:
    """Return the points of a sweep in the order in which their tasks start.

    Returns an empty tuple for a stage that is not a sweep. If the file with the points is missing
    or was changed, the copy of an earlier attempt is used. With ``anew``, for a new attempt, a
    changed file is an error. Raises `ChangedMap`, `UnfitMap`, or `MissingInput` if there is no copy
    of a missing file.
    """
    if not is_sweep(stage.parameters):
        return ()
    given = stage.parameters[MAP]
    content = read_points_file(root, state, stage, anew=anew)
    try:
        text = None if content is None else content.decode("utf-8-sig")
        found = build_points(given, text, _read_reused_points(root, state, given, anew))
        if added := points_added_by_rounds(state, stage.id):
            folders = {key: value for key, value in given.items() if key == "folders"}
            found = build_points({"points": [*(dict(p.values) for p in found), *added], **folders})
        found = replicate_points(given, found)
    except UnicodeDecodeError as error:
        why = f"{given['file']}: expected UTF-8, found byte {error.start}"
        raise UnfitMap(stage.id, why) from error
    except UnusableMap as error:
        raise UnfitMap(stage.id, str(error)) from error
    leading = [stage, *find_point_source_stages(state, stage)][-1].parameters[MAP]
    names = list_value_names(point.values for point in found)
    if both := find_conflicting_parameters(leading, stage.parameters, names):
        raise UnfitMap(stage.id, f"both the map and parameters.{both[0]} set {both[0]}")
    return found


def count_tasks_before_rounds(state: Workflow, stage: Stage) -> list[int]:
    """Return the number of tasks before each round of the loop that contains the sweep.

    Returns an empty list if the sweep is in no loop.
    """
    name = state.loop_of(stage.id)
    if name is None:
        return []
    _, *others = state.loops[name].rounds
    leading = state.stage(state.loop(name).points)
    count = len(build_points(leading.parameters[MAP]))
    starts = [0]
    for one in others:
        starts.append(count * leading.work.replicates)
        count += len(one.points)
    return starts


def _read_reused_points(
    root: Path, state: Workflow, given: dict[str, str], anew: bool
) -> tuple[Point, ...]:
    if "like" not in given:
        return ()
    found = points_of(root, state, state.stage(given["like"]), anew=anew)
    if not found:
        raise UnusableMap(f"like: stage {given['like']} has no map")
    return found


def read_points_file(root: Path, state: Workflow, stage: Stage, *, anew: bool) -> bytes | None:
    """Return the content of the file with the points of a sweep, or None without a file.

    If the file is missing or was changed, the copy of an earlier attempt may be used. Raises any
    error of `points_of`.
    """
    given = stage.parameters[MAP]
    if "file" not in given:
        return None
    path = str(given["file"])
    error: Exception
    try:
        content = read_regular(root / path)
        found = sha256(content).hexdigest()
        if found == given["sha256"]:
            return content
        error = ChangedMap(stage.id, path, given["sha256"], found)
    except (FileNotFoundError, IsADirectoryError):
        error = MissingInput(path)
    except OSError as failed:
        error = UnfitMap(stage.id, f"{path}: {failed.strerror}")
    # An earlier attempt may have a copy of the file with the digest in the definition.
    for recorded in reversed(stage.attempts if isinstance(error, MissingInput) or not anew else []):
        copy = recorded_attempt_paths(root, state.id, stage.id, recorded).task_points
        kept = plain.read_text(copy).encode()
        if sha256(kept).hexdigest() == given["sha256"]:
            return kept
    raise error


def list_point_keys(root: Path, state: Workflow, stage: Stage, given: dict[str, Any]) -> set[str]:
    """Return the keys of the points that the given definition of a sweep describes.

    ``given`` is the current definition or an earlier one. Returns an empty set if the points cannot
    be read, for example because their file no longer exists and no attempt has a copy.
    """
    then = replace(stage, parameters={MAP: given})
    try:
        content = read_points_file(root, state, then, anew=False)
        text = None if content is None else content.decode("utf-8-sig")
        points = build_points(given, text, _read_reused_points(root, state, given, anew=False))
        return {point.key for point in replicate_points(given, points)}
    except (Refused, ReconcilerError, UnusableMap, UnicodeDecodeError, OSError):
        return set()


def digest_points(found: tuple[Point, ...]) -> str:
    """Return a digest of the points, which also depends on their order."""
    return sha256("\n".join(point.key for point in found).encode()).hexdigest()
