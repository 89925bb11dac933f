"""Read the markers and files of a stage, and move old ones out of the way of a new attempt.

A marker is a small file that shows the end of the monitor, the process that watches a job. Most
markers are bound to an attempt: the first line contains the exit code of the monitor, the second
line the full tag of the attempt and the time in UTC. The marker ``DPDISP_EXIT_CODE`` contains only
a number, because other programs compare it with a number. A record in the attempt's folder shows
which attempt this number belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from eventstore.private_files import create_private_folder
from reconciler.attempt.paths import (
    ATTEMPTS,
    DONE,
    EXIT_CODE,
    KEPT,
    AttemptPaths,
)
from reconciler.host import small_files as plain
from service.root.root import MARKER

MARKERS = (EXIT_CODE, DONE)


class MarkerState(StrEnum):
    """The possible states of a marker file: none, own, of another attempt, or unreadable."""

    NONE = "none"
    OWN = "own"
    OTHER = "other"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Marker:
    """The content of a marker, a file that shows how the monitor of an attempt ended.

    ``tag`` names the attempt and ``code`` is the exit code. Each is set only if it could be read.
    ``mtime`` is the change time of the file in ns.
    """

    seen: MarkerState
    code: int | None = None
    tag: str | None = None
    mtime: int | None = None


def read_marker(path: Path, tag: str) -> Marker:
    """Read a marker file, and check whether it names the attempt with the given tag.

    A missing file gives a marker with the state `NONE`, an unreadable file one with `UNREADABLE`.
    """
    try:
        content = plain.read_content(path)
        mtime = None if content is None else path.stat().st_mtime_ns
    except OSError:
        return Marker(MarkerState.UNREADABLE)
    if content is None or mtime is None:
        return Marker(MarkerState.NONE)
    lines = content.decode(errors="replace").split("\n")
    code = plain.parse_number(lines[0])
    found = lines[1].split(" ")[0] if len(lines) > 2 else None
    if code is None or not found:
        return Marker(MarkerState.UNREADABLE, code, found, mtime)
    return Marker(MarkerState.OWN if found == tag else MarkerState.OTHER, code, found, mtime)


def read_exit_code_marker(attempt: AttemptPaths) -> Marker:
    """Read the marker with the exit code of the attempt's monitor.

    A number without a tag belongs to the attempt if the record in the attempt's folder contains the
    same number. Earlier versions of wfctl wrote the tag into the marker itself, which is also
    accepted.
    """
    marker = read_marker(attempt.exit_code_marker, attempt.tag)
    record = read_marker(attempt.exit_code_record, attempt.tag)
    if marker.seen is MarkerState.NONE:
        return record
    text = plain.read_text(attempt.exit_code_marker)
    is_number = text.count("\n") <= 1 and plain.parse_number(text) is not None
    if not (marker.seen is MarkerState.UNREADABLE and is_number):
        return marker
    if record.seen is MarkerState.OWN and record.code == marker.code:
        return record
    return Marker(MarkerState.OTHER, marker.code, None, marker.mtime)


def make_folders(attempt: AttemptPaths, *below: Path) -> None:
    """Create the folder of the attempt and the given subfolders.

    They get the same access mode as the folder of the log.
    """
    attempt.stage_folder.mkdir(parents=True, exist_ok=True)
    for folder in (attempt.folder.parent, attempt.folder, *below):
        create_private_folder(folder, attempt.root / MARKER)


def move_stale_files_aside(
    root: Path, stage: str, outputs: Sequence[str], previous: str | None
) -> tuple[str, ...]:
    """Move old outputs and markers out of the way of a new attempt, and return their paths.

    An old output would hide that the new attempt wrote none, and an old marker would look like a
    marker of the new attempt. The files move to ``kept/`` in the folder of the earlier attempt
    (``none`` if no attempt is known) and keep their path relative to the root. No file is deleted
    or overwritten.
    """
    markers = [f"{stage}/{name}" for name in MARKERS]
    logs = [f"{stage}/log", f"{stage}/err"]
    paths = list(dict.fromkeys([*outputs, *markers, *logs]))
    return tuple(path for path in paths if move_file_aside(root, stage, path, previous))


def move_file_aside(root: Path, stage: str, path: str, previous: str | None) -> bool:
    """Move a file out of the way of a new attempt, and return whether the file existed.

    The file moves into the folder of the ``previous`` attempt. No file is deleted or overwritten.
    """
    source = root / path
    if not os.path.lexists(source):
        return False
    target = first = root / stage / ATTEMPTS / (previous or "none") / KEPT / path
    number = 0
    while os.path.lexists(target):
        number += 1
        target = first.with_name(f"{first.name}.~{number}~")
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    return True
