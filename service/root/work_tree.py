"""Detect whether two folders are in different Git work trees of one repository."""

from __future__ import annotations

from pathlib import Path

#: Maximum size in bytes of a file that contains the path of a repository.
_LONGEST = 10_000


def other_work_tree(folder: Path, root: Path) -> Path | None:
    """Return the top of the work tree of ``folder``, if ``root`` is in another work tree.

    Return None if both are in the same work tree, in different repositories or in none, or if the
    repository cannot be read.
    """
    try:
        top, other = _find_top(folder), _find_top(root)
        if top is None or other is None or top == other:
            return None
        return top if _find_repository(top) == _find_repository(other) else None
    except OSError:
        return None


def _find_top(folder: Path) -> Path | None:
    here = folder.resolve()
    return next((one for one in (here, *here.parents) if (one / ".git").exists()), None)


def _find_repository(top: Path) -> Path:
    """Return the repository folder that all work trees share.

    ``top`` is the top of a work tree.
    """
    place = top / ".git"
    if place.is_file():
        place = top / _read_line(place).removeprefix("gitdir:").strip()
    common = place / "commondir"
    return (place / _read_line(common) if common.is_file() else place).resolve()


def _read_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LONGEST).strip()
