"""Repair a damaged log: create a new log from its valid part, and archive the old files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from eventstore.errors import UnsoundLog
from eventstore.schema import Schema
from eventstore.store import EventStore
from eventstore.transfer.copy import Chains, CopyCounts, copy_log
from eventstore.transfer.intact_parts import ValidStreamPrefixes
from service.files.workflow_files import LOG, STATE
from service.reading.trust_marks import record_salvage_marks
from service.root.atomic_files import sync_folder
from service.root.root import Root

_BESIDE = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """The result of repairing a log.

    ``lost`` contains the first lost version of each stream that was cut. ``kept`` is the folder
    with the old files, or None if they were not moved.
    """

    copied: CopyCounts
    lost: dict[str, int]
    kept: Path | None


def find_unsound_streams(store: EventStore, schema: Schema) -> dict[str, int]:
    """Return each stream that has damaged events, with the first damaged version."""
    chains = Chains()
    for raw in ValidStreamPrefixes(store, schema).all_raw():
        chains.check_and_add(raw)
    ends = {stream: link.version for stream, link in chains.heads.items()}
    sound = {**dict.fromkeys(store.streams(), 0), **ends}
    return {s: end + 1 for s, end in sound.items() if _count_versions_after(store, s, end) != 0}


def _count_versions_after(store: EventStore, stream: str, end: int) -> int | None:
    """Return the number of versions after the valid part of a stream.

    Return None if the last version is not readable.
    """
    try:
        head = store.head(stream)
    except UnsoundLog:
        return None
    return max(0, head.version - end) if head is not None else 0


def salvage_into(
    root: Root, store: EventStore, schema: Schema, target: EventStore, now: datetime
) -> SalvageResult:
    """Copy the valid part of a log into an empty log, and record the lost events."""
    lost = find_unsound_streams(store, schema)
    copied = copy_log(ValidStreamPrefixes(store, schema), target)
    marked = {s: (first, _count_versions_after(store, s, first - 1)) for s, first in lost.items()}
    record_salvage_marks(root, store, marked, now)
    return SalvageResult(copied, lost, None)


def salvage_log(
    root: Root, store: EventStore, schema: Schema, made: Callable[[Path], EventStore], now: datetime
) -> SalvageResult:
    """Replace the log file of a folder by a new log that contains only the valid part.

    The old log and its files are moved to a folder in ``.wfctl/``. ``store``, the old log, is
    closed. No other process may write to the log meanwhile.
    """
    log = root.folder / "events.db"
    kept = root.folder / f"altered-{now:%Y%m%dT%H%M%S%fZ}"
    kept.mkdir(mode=0o700)
    new = kept / "new.db"
    with closing(store), closing(made(new)) as target:
        done = salvage_into(root, store, schema, target, now)
    for name in (STATE, LOG):
        if (root.path / name).exists():
            shutil.copy2(root.path / name, kept / name)
    for suffix in _BESIDE:
        old = log.with_name(log.name + suffix)
        if old.exists():
            old.rename(kept / old.name)
    new.rename(log)
    # The remembered state of the generated files belongs to the old log, so archive it too.
    if root.sync_file.exists():
        root.sync_file.rename(kept / root.sync_file.name)
    for folder in (kept, root.folder):
        sync_folder(folder)
    return replace(done, kept=kept)
