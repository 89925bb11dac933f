"""A log that was altered, made anew from its sound part; all that was there is kept beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from eventstore.codec import Schema
from eventstore.errors import UnsoundLog
from eventstore.store import EventStore
from eventstore.transfer.copy import Chains, Copied, copy
from eventstore.transfer.sound import SoundPart
from service.files.workflow_files import LOG, STATE
from service.root.disk import sync_folder
from service.root.root import Root

_BESIDE = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What of a log was taken over: ``lost`` gives each stream that was cut its first bad version.

    ``kept`` is the folder with everything as it was found, None where it was left in place.
    """

    copied: Copied
    lost: dict[str, int]
    kept: Path | None


def survey(store: EventStore, schema: Schema) -> dict[str, int]:
    """Return each stream of which something is not sound, with the first version that is not."""
    sound = {**dict.fromkeys(store.streams(), 0), **_ends(store, schema)}
    return {stream: end + 1 for stream, end in sound.items() if _goes_on(store, stream, end)}


def _goes_on(store: EventStore, stream: str, end: int) -> bool:
    """Whether there is more of a stream than its sound part, be it no version that can be one."""
    try:
        head = store.head(stream)
    except UnsoundLog:
        return True
    return head is not None and head.version > end


def _ends(store: EventStore, schema: Schema) -> dict[str, int]:
    chains = Chains()
    for raw in SoundPart(store, schema).all_raw():
        chains.added(raw)
    return {stream: link.version for stream, link in chains.heads.items()}


def salvaged_into(store: EventStore, target: EventStore, schema: Schema) -> Salvaged:
    """Copy the sound part of a log into another, empty one."""
    lost = survey(store, schema)
    return Salvaged(copy(SoundPart(store, schema), target), lost, None)


def salvage(
    root: Root,
    store: EventStore,
    schema: Schema,
    made: Callable[[Path], EventStore],
    now: datetime,
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
        done = salvaged_into(store, target, schema)
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
    return Salvaged(done.copied, done.lost, kept)
