"""Write an RO-Crate with its metadata, its main workflow and the recorded files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from service.errors import AlreadyThere
from service.root.atomic_files import open_replacement, sync_folder, write_streamed

_MODE = 0o644 << 16

Parts = Mapping[str, Callable[[], Iterable[bytes]]]
"""Path of a file in the crate → what yields its content."""


def write_zip(path: Path, parts: Parts) -> None:
    """Write the complete RO-Crate as a zip file. The same content gives the same bytes."""
    with open_replacement(path) as temporary, ZipFile(temporary, "w") as archive:
        for name, content in parts.items():
            entry = ZipInfo(name)
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, _MODE
            with archive.open(entry, "w", force_zip64=True) as file:
                file.writelines(content())


def write_folder(path: Path, parts: Parts) -> None:
    """Write the complete RO-Crate to a folder.

    Raises `AlreadyThere` if the path exists and is not an empty folder.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise AlreadyThere(path)
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    temporary.mkdir()
    try:
        for name, content in parts.items():
            place = temporary / name
            place.parent.mkdir(parents=True, exist_ok=True)
            write_streamed(place, content())
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    sync_folder(path.parent)
