"""Write a backup of several logs, and open one log in a backup."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from eventstore.regular_files import open_for_reading
from eventstore.store import EventStore
from eventstore.transfer.archive import ArchiveSource, is_archive
from eventstore.transfer.archive import write_archive as write_log
from eventstore.transfer.copy import CopyCounts, CopySource, copy_log
from service.errors import AlreadyThere, InvalidOption, NotFound
from service.root.atomic_files import sync_folder

_SQLITE = b"SQLite format 3\0"
_PG_DUMP = b"PGDMP"


class StoreOpeners(NamedTuple):
    """Functions that open the event store at an address, or create a new one for writing."""

    reading: Callable[[Path], EventStore]
    made: Callable[[Path], EventStore]


def back_up(
    store: CopySource, file: Path, form: str, stores: StoreOpeners, *, only: str | None = None
) -> CopyCounts:
    """Write the current log to a new ``file``: an ``archive`` or a ``sqlite`` database.

    The file appears only after it is complete, checked and saved to disk. Raises `AlreadyThere` if
    the file exists, `InvalidOption` for stdout, and any error of reading the log.
    """
    if str(file) == "-":
        raise InvalidOption(
            "the backup cannot be written to stdout, because wfctl reads the backup again to "
            "check it. Name a FILE for the backup."
        )
    if file.exists():
        raise AlreadyThere(file)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        new = Path(folder) / "log"
        if form == "sqlite":
            with closing(stores.made(new)) as target:
                done = copy_log(store, target, only=only)
        else:
            done = write_log(store, new, only=only)
            for _ in ArchiveSource(new).all_raw():
                pass
        new.rename(file)
    sync_folder(file.parent)
    return done


def open_backup(file: Path, stores: StoreOpeners) -> ArchiveSource | EventStore:
    """Open a backup and return its content. The caller must close it.

    Raises `NotFound` if the file does not exist, and `InvalidOption` if it is not a backup.
    """
    try:
        with open_for_reading(file) as source:
            start = source.read(len(_SQLITE))
    except FileNotFoundError:
        raise NotFound(f"the backup {file} does not exist", path=str(file)) from None
    if start == _SQLITE:
        return stores.reading(file)
    if is_archive(file):
        return ArchiveSource(file)
    hint = ". To read this PostgreSQL dump, use pg_restore" if start.startswith(_PG_DUMP) else ""
    raise InvalidOption(f"the file {file} is not a backup made by `wfctl db backup`{hint}.")
