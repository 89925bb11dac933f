"""The points of a stage's map, with the file that names them and the stage that it is like."""

from __future__ import annotations

from collections.abc import Container
from hashlib import sha256
from pathlib import Path

from eventstore.private import read_regular
from lifecycle.errors import Refused
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, MAP, is_sweep, table_of
from lifecycle.sweeps.points import Point, UnusableMap, points
from reconciler.attempt.markers import set_aside
from reconciler.attempt.paths import of_recorded
from reconciler.errors import MissingInput
from reconciler.files.clearing import LABEL, KeptFolderTaken
from reconciler.host import processes as plain
from service.root.disk import write_whole
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
        text = None if content is None else content.decode()
        found = points(given, text, _like(root, state, given, anew))
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


def keep(root: Path, state: Workflow, stage: Stage) -> bool:
    """Move folders of tasks that are no more, and the table of before, to ``stage-N.vK``.

    All else stays where it is. May be called again after a crash. Returns whether there is a kept
    folder now. Raises `KeptFolderTaken`, and as `points_of`.
    """
    if stage.keep_as is None:
        return False
    kept, done = root / stage.keep_as, root / stage.id / DONE
    named = {point.folder for point in points_of(root, state, stage)}
    gone = sorted({f.name for f in done.iterdir()} - named) if done.is_dir() else []
    moves = [(done / name, kept / DONE / name) for name in gone]
    tables = [(root / path, kept / Path(path).name) for path in table_of(stage.id)]
    moves += [(old, new) for old, new in tables if old.exists()]
    if moves:
        label = kept / LABEL
        if kept.exists() and not label.is_file():
            raise KeptFolderTaken(stage.id, kept)
        kept.mkdir(exist_ok=True)
        write_whole(label, f"{stage.keep_as}\n".encode())
        (kept / DONE).mkdir(exist_ok=True)
    for old, new in moves:
        old.rename(new)
    return kept.exists()


def put_aside(root: Path, stage: Stage, done: Container[str]) -> None:
    """Move each folder that is not ``done`` out of the way, as other outputs of earlier attempts.

    It is kept in the earlier attempt's folder. May be called again after a crash.
    """
    folder = root / stage.id / DONE
    previous = stage.attempt.name if stage.attempt else None
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name not in done:
            set_aside(root, stage.id, f"{stage.id}/{DONE}/{found.name}", previous)
