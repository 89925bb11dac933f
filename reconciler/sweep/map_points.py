"""The points of a stage's map, as they stand: in the definition, in a file, and of rounds."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from eventstore.private import read_regular
from lifecycle.errors import Refused
from lifecycle.state.conditions import added_points
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep
from lifecycle.sweeps.points import Point, UnusableMap, points
from reconciler.attempt.paths import of_recorded
from reconciler.errors import MissingInput
from reconciler.host import small_files as plain
from wording import Worded


class ChangedMap(Worded, Refused):
    """The file of a map that is not the one that the definition names."""

    code = "changed_map"
    text = (
        "{stage}: {path}: expected the points with SHA-256 {expected}, found {found}. Put the "
        "file back, or propose the new one: `wfctl amend propose --stage {stage} --set "
        '\'parameters.map={{"file": …, "sha256": …}}\' --reason TEXT`.'
    )
    stage: str
    path: str
    expected: str
    found: str


class UnfitMap(Worded, Refused):
    """A map that has no usable points where it stands now, or whose file cannot be read."""

    code = "unfit_map"
    text = "{stage}.parameters.map: {why}. An amendment changes it."
    stage: str
    why: str


def points_of(
    root: Path, state: Workflow, stage: Stage, *, anew: bool = False
) -> tuple[Point, ...]:
    """Return the points of the stage's map, in the order in which they are begun.

    ``anew``: for an attempt that is to be made, which a file that was changed holds up. Raises
    `ChangedMap`, `UnfitMap`, or `MissingInput` for a file of which no attempt has a copy.
    """
    given = stage.parameters[MAP]
    content = content_of(root, state, stage, anew=anew)
    try:
        text = None if content is None else content.decode("utf-8-sig")
        found = points(given, text, _like(root, state, given, anew))
        if added := added_points(state, stage.id):
            folders = {key: value for key, value in given.items() if key == "folders"}
            found = points({"points": [*(dict(p.values) for p in found), *added], **folders})
    except UnicodeDecodeError as error:
        why = f"{given['file']}: expected UTF-8, found byte {error.start}"
        raise UnfitMap(stage.id, why) from error
    except UnusableMap as error:
        raise UnfitMap(stage.id, str(error)) from error
    both = [name for name in found[0].values if name in stage.parameters] if found else []
    if both:
        why = f"it gives {both[0]} to each task, and so does parameters.{both[0]}"
        raise UnfitMap(stage.id, why)
    return found


def rounds_of(state: Workflow, stage: Stage) -> list[int]:
    """Return how many tasks a sweep had before each round of its loop; nothing without a loop."""
    name = state.loop_of(stage.id)
    if name is None:
        return []
    _, *others = state.loops[name].rounds
    count = len(points(state.stage(state.loop(name).points).parameters[MAP]))
    starts = [0]
    for one in others:
        starts.append(count)
        count += len(one.points)
    return starts


def _like(root: Path, state: Workflow, given: dict[str, str], anew: bool) -> tuple[Point, ...]:
    if "like" not in given:
        return ()
    other = state.stage(given["like"])
    if not is_sweep(other.parameters):
        raise UnusableMap(f"like: {other.id} has no map")
    return points_of(root, state, other, anew=anew)


def content_of(root: Path, state: Workflow, stage: Stage, *, anew: bool) -> bytes | None:
    """Return what the file of the map holds, else an attempt's copy of it; None without a file.

    Raises as `points_of`.
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
    # Of the file that the definition names an attempt may have a copy.
    for recorded in reversed(stage.attempts if isinstance(error, MissingInput) or not anew else []):
        copy = of_recorded(root, state.id, stage.id, recorded).task_points
        kept = plain.text(copy).encode()
        if sha256(kept).hexdigest() == given["sha256"]:
            return kept
    raise error


def digest_of(found: tuple[Point, ...]) -> str:
    """Return what tells these points in this order from others."""
    return sha256("\n".join(point.key for point in found).encode()).hexdigest()
