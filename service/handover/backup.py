"""Backups: a log in one file, made while others write, and checked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from eventstore.errors import SchemaError
from eventstore.regular import opened
from eventstore.store import EventStore
from eventstore.transfer.archive import ArchiveSource, is_archive, write_archive
from eventstore.transfer.copy import Copied, CopySource, copy
from lifecycle.words.naming import is_id
from service.errors import AlreadyThere, InvalidOption, NotFound
from service.root.disk import sync_folder
from service.root.root import WORKFLOW

_SQLITE = b"SQLite format 3\0"
_PG_DUMP = b"PGDMP"


@dataclass(frozen=True, slots=True)
class Stores:
    """How stores are opened: the one at an address, for reading or writing, or made anew."""

    reading: Callable[[Path], EventStore]
    made: Callable[[Path], EventStore]


def require_stream(source: CopySource, only: str | None) -> None:
    """Raise `NotFound` for a stream that is not there: an empty copy would look like a good one."""
    if only is not None and only not in source.streams():
        there = ", ".join(source.streams()) or "none"
        raise NotFound(f"no stream {only!r}; there is: {there}", stream=only)


def require_in_place(store: EventStore, only: str | None) -> None:
    """Raise `UnsoundLog` where a log, or one stream of it, is not what was recorded.

    So whoever copies a log that was altered is told the same as whoever reads it.
    """
    for stream in [only] if only is not None else list(store.streams()):
        # What a newer program recorded is copied as it is, and its chain is checked on the way.
        with suppress(SchemaError):
            for _ in store.read(stream):
                pass


def back_up(
    store: EventStore, file: Path, form: str, stores: Stores, *, only: str | None = None
) -> Copied:
    """Write the log to a new ``file``, as it is now: an ``archive`` or a ``sqlite`` database.

    It has its name only once it is whole, checked and durable. Raises `AlreadyThere`,
    `InvalidOption` for stdout, `UnsoundLog`, and what reading raises.
    """
    if str(file) == "-":
        raise InvalidOption("expected a FILE: a backup is read again to be checked, unlike stdout")
    if file.exists():
        raise AlreadyThere(file)
    require_in_place(store, only)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        new = Path(folder) / "log"
        done = _written(store, new, form, stores, only)
        new.rename(file)
    sync_folder(file.parent)
    return done


def _written(store: EventStore, new: Path, form: str, stores: Stores, only: str | None) -> Copied:
    if form == "sqlite":
        with closing(stores.made(new)) as target:
            return copy(store, target, only=only)
    done = write_archive(store, new, only=only)
    for _ in ArchiveSource(new).all_raw():
        pass
    return done


def workflow_in(source: CopySource, only: str | None = None) -> str | None:
    """Return the workflow that a backup, or one stream of it, is of; None where it has machines.

    Raises `InvalidOption` where there are several: a root has one.
    """
    streams = [only] if only is not None else list(source.streams())
    found = [name.removeprefix(WORKFLOW) for name in streams if name.startswith(WORKFLOW)]
    if len(found) > 1:
        raise InvalidOption(
            f"a root has one workflow, and the backup has {', '.join(found)}: choose one with "
            f"--stream {WORKFLOW}ID",
            workflows=found,
        )
    if found and not is_id(found[0]):
        raise InvalidOption(f"expected the id of a workflow in the backup, found {found[0]!r:.80}")
    return found[0] if found else None


def source_in(file: Path, stores: Stores) -> ArchiveSource | EventStore:
    """Return what a backup holds, to be closed; raises `InvalidOption` for a file that is none.

    Raises `NotFound` where there is no file.
    """
    try:
        with opened(file) as source:
            start = source.read(len(_SQLITE))
    except FileNotFoundError:
        raise NotFound(f"{file}: expected a backup, found no file", path=str(file)) from None
    if start == _SQLITE:
        return stores.reading(file)
    if is_archive(file):
        return ArchiveSource(file)
    hint = "; pg_restore reads it" if start.startswith(_PG_DUMP) else ""
    raise InvalidOption(f"{file}: expected a backup made by `wfctl db backup`, found none{hint}")
