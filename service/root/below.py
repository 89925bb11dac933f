"""Opening what lies below a root, and nothing else: no path leads out of it, nor does any link.

A path may come from an event, a document or an archive, and those from anybody.
"""

from __future__ import annotations

import os
from pathlib import Path

from lifecycle.words.naming import is_below
from service.errors import ServiceError


class OutsideRoot(ServiceError):
    """A path that leads out of the root, by its words or by a link on the way."""

    code = "outside_root"

    def __init__(self, root: Path, path: str, found: str) -> None:
        super().__init__(
            f"{path!r:.200}: expected a path that stays below {root}, found one that {found}; "
            "nothing there was read or written. Take away the link, or name another path.",
            root=str(root),
            path=path,
        )


def below(root: Path, path: str) -> Path:
    """Return where a path relative to ``root`` is; raises `OutsideRoot`.

    A link that stays below the root is resolved. To open it, `service.root.within` looks and opens
    in one step.
    """
    real = real_place(root, path)
    place = root / path
    return Path(os.path.realpath(root)) / real if place.is_symlink() else place


def real_place(root: Path, path: str) -> Path:
    """Return where a path leads to, all links followed, relative to the real root.

    Raises `OutsideRoot`.
    """
    if not is_below(path):
        raise OutsideRoot(root, path, "is absolute, leads upwards or holds a control character")
    real, top = _real(root / path), Path(os.path.realpath(root))
    if real is None:
        raise OutsideRoot(root, path, "became a link, or ceased to be one, while it was looked at")
    if not real.is_relative_to(top):
        raise OutsideRoot(root, path, f"leads out of it, to {real}")
    return real.relative_to(top)


def seen_from(folder: Path, path: str) -> Path:
    """Return the place that a path names from a folder, by its words alone.

    A step that ``..`` takes back need not be there, and a link there leads nowhere else: a stage
    has no folder yet when its machine is looked for.
    """
    return Path(os.path.normpath(folder / path))


def _real(path: Path) -> Path | None:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # exchanged between two steps; a NUL
        return None


def is_inside(place: Path, folder: Path) -> bool:
    """Whether a path, all links followed, is the folder or lies in it; links in a circle do not."""
    real = _real(place)
    return real is not None and real.is_relative_to(os.path.realpath(folder))
