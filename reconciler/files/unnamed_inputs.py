"""Files that somebody put into a stage's folder for its command, and that no field names.

The command runs in a copy of the folder, so they are sent along; what is sent is recorded like any
other input of the attempt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import DONE, is_sweep, table_of
from reconciler.attempt.contract import PREPARED, WRAPPER
from reconciler.attempt.markers import MARKERS
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.submission.diagnostic import FILE_NAME
from service.root.below import is_inside

#: Bytes and files that are sent without being named.
_BYTES, _FILES = 10**8, 1000
#: What wfctl, DPDispatcher and the published wrapper keep in the folder themselves.
_NOT_THEIRS = frozenset(
    {PREPARED, WRAPPER, FILE_NAME, OUTPUT_LOG, ERROR_LOG, "dpdispatcher.log", *MARKERS}
)


class TooMuchBeside(Refused):
    """More lies in a stage's folder than is sent to a job without being named."""

    code = "too_much_beside"

    def __init__(self, stage: str, files: int, size: int) -> None:
        super().__init__(
            f"{stage}/ holds {files} files of {size} bytes that no field of the stage names; "
            f"expected at most {_FILES} files and {_BYTES} bytes. Name those that its command "
            f"needs: `wfctl amend propose --stage {stage} --set "
            "'parameters.forward_files=[\"run.py\"]' --reason TEXT`; [] sends none.",
            stage=stage,
            files=files,
            bytes=size,
        )


def files_beside(root: Path, stage: Stage) -> list[str]:
    """Return the files that somebody put into the stage's folder, relative to it, as patterns.

    None of its outputs, of its inputs, or of what its attempts left. Hidden files stay where they
    are. Raises `TooMuchBeside`.
    """
    taken = [*stage.outputs, *stage.inputs, *stage.left_in_place]
    if is_sweep(stage.parameters):
        taken += [*table_of(stage.id), f"{stage.id}/{DONE}"]
    found = [
        (path, size)
        for path, size in _below(root / stage.id)
        if not any(_is_at(f"{stage.id}/{path}", one) for one in taken)
    ]
    total = sum(size for _, size in found)
    if total > _BYTES or len(found) > _FILES:
        raise TooMuchBeside(stage.id, len(found), total)
    return [escape(path) for path, _ in found]


def _is_at(path: str, taken: str) -> bool:
    taken = os.path.normpath(taken)
    return path == taken or path.startswith(f"{taken}/")


def _can_be_recorded(path: str) -> bool:
    """Whether a name is text: bytes that are not UTF-8 have no place in an event."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each file below a folder with its size; none that is hidden, or is a link elsewhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            own = str(path.relative_to(folder))
            if name.startswith(".") or own in _NOT_THEIRS or not _can_be_recorded(own):
                continue
            if path.is_file() and is_inside(path, folder):
                yield own, path.stat().st_size
