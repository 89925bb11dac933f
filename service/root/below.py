"""Opening what lies below a root, and nothing else: no path leads out of it, nor does any link.

A path may come from an event, a document or an archive, and those from anybody. Who can put a link
in place between the look and the opening can write in the root, and needs no help from us.
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

    Links that stay below the root are followed.
    """
    if not is_below(path):
        raise OutsideRoot(root, path, "is absolute, leads upwards or holds a control character")
    place = root / path
    if not is_inside(place, root):
        real = os.path.realpath(place)
        raise OutsideRoot(root, path, f"leads out of it, to {real}")
    return place


def is_inside(place: Path, folder: Path) -> bool:
    """Whether a path, all links followed, is the folder or lies in it; links in a circle do not."""
    try:
        return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))
    except ValueError:  # a NUL
        return False
