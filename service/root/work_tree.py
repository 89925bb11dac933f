"""Tells whether two folders lie in different work trees of one repository, without git."""

from __future__ import annotations

from pathlib import Path

#: Maximum number of bytes of a file that leads to a repository.
_LONGEST = 10_000


def other_work_tree(folder: Path, root: Path) -> Path | None:
    """Return the top of the work tree of ``folder`` if ``root`` lies in another one.

    None if both lie in the same work tree, in different repositories, or in none; so if what leads
    to the repository cannot be read.
    """
    try:
        top, other = _top(folder), _top(root)
        if top is None or other is None or top == other:
            return None
        return top if _repository(top) == _repository(other) else None
    except OSError:
        return None


def _top(folder: Path) -> Path | None:
    here = folder.resolve()
    return next((one for one in (here, *here.parents) if (one / ".git").exists()), None)


def _repository(top: Path) -> Path:
    """Return the folder that all work trees of a repository share."""
    place = top / ".git"
    if place.is_file():
        place = top / _line(place).removeprefix("gitdir:").strip()
    common = place / "commondir"
    return (place / _line(common) if common.is_file() else place).resolve()


def _line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LONGEST).strip()
