"""A log that was altered, made anew from its sound part; all that was there is kept beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from eventstore.chain import Schema
from eventstore.errors import UnsoundLog
from eventstore.store import EventStore
from eventstore.transfer.archive import SoundPart
from eventstore.transfer.copy import Chains, Copied, copy
from service.files.workflow_files import LOG, STATE
from service.reading.trust_marks import keep_salvage
from service.root.disk import sync_folder
from service.root.root import Root

_BESIDE = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What of a log was taken over: ``lost`` gives each stream that was cut its first bad version.

    ``kept`` is the folder with everything as it was found, None if it was left in place.
    """

    copied: Copied
    lost: dict[str, int]
    kept: Path | None


def survey(store: EventStore, schema: Schema) -> dict[str, int]:
    """Return each stream of which something is not sound, with the first version that is not."""
    chains = Chains()
    for raw in SoundPart(store, schema).all_raw():
        chains.added(raw)
    ends = {stream: link.version for stream, link in chains.heads.items()}
    sound = {**dict.fromkeys(store.streams(), 0), **ends}
    return {s: end + 1 for s, end in sound.items() if _beyond(store, s, end) != 0}


def _beyond(store: EventStore, stream: str, end: int) -> int | None:
    """Return how many versions follow the sound part; None if the last can be no version."""
    try:
        head = store.head(stream)
    except UnsoundLog:
        return None
    return max(0, head.version - end) if head is not None else 0


def salvaged_into(
    root: Root, store: EventStore, schema: Schema, target: EventStore, now: datetime
) -> Salvaged:
    """Copy the sound part of a root's log into another, empty one; the root keeps a mark of it."""
    lost = survey(store, schema)
    copied = copy(SoundPart(store, schema), target)
    marked = {s: (first, _beyond(store, s, first - 1)) for s, first in lost.items()}
    keep_salvage(root, store, marked, now)
    return Salvaged(copied, lost, None)


def salvage(
    root: Root, store: EventStore, schema: Schema, made: Callable[[Path], EventStore], now: datetime
) -> Salvaged:
    """Put a log with the sound part in place of a root's log in a file.

    The old log and the files that showed it go into a folder of ``.wfctl/``. ``store`` is the old
    one, and is closed. Nobody may write meanwhile.
    """
    log = root.folder / "events.db"
    kept = root.folder / f"altered-{now:%Y%m%dT%H%M%S%fZ}"
    kept.mkdir(mode=0o700)
    new = kept / "new.db"
    with closing(store), closing(made(new)) as target:
        done = salvaged_into(root, store, schema, target, now)
    for name in (STATE, LOG):
        if (root.path / name).exists():
            shutil.copy2(root.path / name, kept / name)
    for suffix in _BESIDE:
        old = log.with_name(log.name + suffix)
        if old.exists():
            old.rename(kept / old.name)
    new.rename(log)
    # What was remembered of the files is of the old log.
    if root.sync_file.exists():
        root.sync_file.rename(kept / root.sync_file.name)
    for folder in (kept, root.folder):
        sync_folder(folder)
    return replace(done, kept=kept)
