"""Exports as a caller gets them, without the start of a Python each."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cli.support import Place


def exported(place: Place, format_: str, *more: str) -> bytes:
    """Return the bytes of an export that must go well."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export"
        answer = place.call("export", format_, str(file), *more)
        assert answer.code == 0, answer
        return file.read_bytes()


def text_of(place: Place, format_: str, *more: str) -> str:
    """Return the text of an export that must go well."""
    return exported(place, format_, *more).decode()
