"""What guards ask of the disk: which files of the root have content, and are JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from lifecycle.machines.guard import FileFact, is_inside


def look(root: Path, patterns: Iterable[str]) -> dict[str, FileFact]:
    """Return what was found for each pattern; nothing outside of the root is looked at."""
    return {pattern: _fact(root, pattern) for pattern in patterns}


def _fact(root: Path, pattern: str) -> FileFact:
    if not is_inside(pattern):
        return FileFact()
    filled = [path for path in sorted(root.glob(pattern)) if _has_content(path)]
    return FileFact(
        tuple(_name(root, path) for path in filled),
        tuple(_name(root, path) for path in filled if is_json(path)),
    )


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root))


def _has_content(path: Path) -> bool:
    return path.is_file() and bool(path.read_bytes().strip())


def is_json(path: Path) -> bool:
    """Whether a file holds a JSON object or list with something in it."""
    try:
        return bool(json.loads(path.read_bytes()))
    except (ValueError, RecursionError):
        return False
