"""Helpers that run exports and imports in the process of the test."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.support import Place, call


def exported(place: Place, format_: str, *more: str) -> bytes:
    """Return the bytes of an export that must succeed."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export.json"
        answer = place.call("export", format_, str(file), *more)
        assert answer.code == 0, answer
        return file.read_bytes()


def text_of(place: Place, format_: str, *more: str) -> str:
    """Return the text of an export that must succeed."""
    return exported(place, format_, *more).decode()


def stages_of(place: Place) -> list[str]:
    """Return the ids of the stages, in the order of the plan."""
    return [stage["id"] for stage in place.done("status")["stages"]]


def handed_over(place: Place, folder: Path) -> Path:
    """Export the archive of a root, and return its path."""
    file = folder / "archive.zip"
    place.done("export", "archive", str(file))
    return file


def taken_over(file: Path, folder: Path) -> Place:
    """Import an archive into a new root, and return the root."""
    answer = call("import", str(file), "--into", str(folder), "-o", "json")
    assert answer.code == 0, answer
    return Place(folder)
