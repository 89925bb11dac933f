"""What guards ask of the disk: which files of the root have content, and are JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Any

from lifecycle.machines.guard import FileFact, is_inside
from service.root.sync import digest


def look(root: Path, patterns: Iterable[str]) -> dict[str, FileFact]:
    """Return what was found for each pattern; nothing outside of the root is looked at."""
    return {pattern: _fact(root, pattern) for pattern in patterns}


def output_at(root: Path, named: Any) -> FileFact:
    """Return what is there of an output of a task; agents name it by its whole path too."""
    own = escape(str(named or "").removeprefix(f"{root}/"))
    return look(root, [own])[own]


def _fact(root: Path, pattern: str) -> FileFact:
    if not is_inside(pattern):
        return FileFact()
    filled = [path for path in sorted(root.glob(pattern)) if _has_content(path)]
    return FileFact(
        tuple(_name(root, path) for path in filled),
        tuple(_name(root, path) for path in filled if is_json(path)),
        {_name(root, path): mark_of(path) for path in filled},
    )


def mark_of(path: Path) -> str:
    """Return the mark of a file: its SHA-256, and when it was written last, in nanoseconds."""
    return f"{digest(path.read_bytes())}@{path.stat().st_mtime_ns}"


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


def status_of_output(root: Path, fact: FileFact, statuses: list[str]) -> str | None:
    """Return the status that a task's output says, ``pre_complete`` where it says none.

    None where there is no output, or the beginning of a JSON object or list alone.
    """
    if not fact.found:
        return None
    if not fact.valid and (root / fact.found[0]).read_bytes().lstrip()[:1] in (b"{", b"["):
        return None
    said = json.loads((root / fact.valid[0]).read_bytes()) if fact.valid else None
    status = said.get("status") if isinstance(said, dict) else None
    return status if status in statuses and status != "running" else "pre_complete"
