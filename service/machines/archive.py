"""The dotagent archive: the state of a workflow that ended or broke, the last five of them.

What was made here is remembered outside of the archive, a note for each folder: nothing else
there is counted or taken away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from service.root.disk import content_of, write_whole
from service.root.sync import digest

KEPT = 5


def keep(folder: Path, notes: Path, workflow: str, at: str, files: Mapping[str, bytes]) -> Path:
    """Keep files as ``{workflow}_{at}/``; ``at`` is UTC in the log's form. Return the folder.

    ``notes`` is where it is remembered which folders were made here. What was kept before stays as
    it was; the oldest of ours beyond the last five go.
    """
    target = folder / f"{workflow}_{stamp(at)}"
    is_ours = not target.exists() or bool(_made(notes, target))
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not (target / name).exists():
            write_whole(target / name, content)
    if is_ours:
        _remember(notes, target, {name: digest(content) for name, content in files.items()})
    for old in sorted(_ours(folder, notes), key=lambda path: _moment(notes, path))[:-KEPT]:
        _take_away(notes, old)
    return target


def _note(notes: Path, folder: Path) -> Path:
    return notes / f"{folder.name}.json"


def _remember(notes: Path, folder: Path, files: dict[str, str]) -> None:
    made = _made(notes, folder)
    if files.keys() - made.keys():
        notes.mkdir(parents=True, exist_ok=True)
        write_whole(_note(notes, folder), json.dumps({**files, **made}).encode())


def _made(notes: Path, folder: Path) -> dict[str, str]:
    """Return the files that were put into an archive here, with their SHA-256 in hex."""
    try:
        found = json.loads(content_of(_note(notes, folder)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _take_away(notes: Path, folder: Path) -> None:
    """Remove what was made here and is as it was; what others put there or changed stays."""
    for name, sha256 in _made(notes, folder).items():
        path = folder / Path(name).name
        content = content_of(path)
        if content is not None and digest(content) == sha256:
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
    _note(notes, folder).unlink()


def _ours(folder: Path, notes: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and _made(notes, path)]


def _moment(notes: Path, folder: Path) -> tuple[int, str]:
    """Return when an archive was made, which its name need not say: people type times too."""
    return _note(notes, folder).stat().st_mtime_ns, folder.name


def stamp(at: str) -> str:
    """Return a time as it stands in a folder's name: ``20260331T100000Z``.

    Of what was typed by hand only letters and digits are left.
    """
    return "".join(letter for letter in at[:19] if letter.isalnum()) + "Z"
