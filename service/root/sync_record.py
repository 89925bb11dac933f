"""The record of the files that wfctl wrote last, with their digests (``sync.json``)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from eventstore.event import RecordedEvent
from eventstore.regular_files import read_regular
from service.root.atomic_files import Mark, system_clock, write_whole

#: Maximum size in bytes of the newer part of a growing file. The older and the newer part have
#: separate digests, so that an append needs to hash only the newer part. When the newer part is
#: full, it becomes part of the older one.
NEWER_PART = 64 * 1024
#: Seconds to wait between checks whether a file shows new events. The sum is half a second.
_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.2)
#: Time after an event in which its writer normally updates the files. Later, waiting for the files
#: is useless.
_LATE = timedelta(seconds=2)
_OF_NOTHING = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Synced:
    """The state of a generated file when wfctl last wrote it: size and shown version.

    ``base`` divides the file into an older and a newer part. ``base_sha256`` is the digest of the
    older part, and ``sha256`` that of the newer part. ``mark`` is metadata that reveal a later
    change.
    """

    stream: str
    version: int
    size: int
    sha256: str
    base: int = 0
    base_sha256: str = _OF_NOTHING
    mark: Mark = field(default_factory=list)
    #: Whether the file ends with a newline.
    fresh: bool = True

    def is_start_of(self, content: bytes) -> bool:
        """Return whether ``content`` starts with all bytes that wfctl wrote to the file."""
        return (
            len(content) >= self.size
            and digest(content[: self.base]) == self.base_sha256
            and digest(content[self.base : self.size]) == self.sha256
        )


@dataclass(frozen=True, slots=True)
class Sync:
    """The content of ``sync.json``: the remembered state of the generated files."""

    head: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Synced] = field(default_factory=dict)

    def version(self, name: str) -> int:
        """Return the log version that the file shows, or 0 if the file was never written."""
        return self.files[name].version if name in self.files else 0

    def having(self, name: str, entry: Synced) -> Sync:
        """Return a copy in which the file ``name`` has a new entry."""
        return replace(self, files={**self.files, name: entry})


def digest(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hex."""
    return sha256(content).hexdigest()


def read_sync(path: Path) -> Sync:
    """Return the content of ``sync.json``. It is empty if the file is missing or damaged."""
    try:
        data = orjson.loads(read_regular(path))
        files = {name: _parse_synced(entry) for name, entry in data["files"].items()}
        return Sync(_check_head(data["head"]), files)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Sync()


def _parse_synced(entry: dict[str, Any]) -> Synced:
    """Return a file's entry from decoded JSON.

    Raises TypeError or ValueError if it is malformed.
    """
    found = Synced(**entry)
    numbers = (found.version, found.size, found.base, *found.mark)
    texts = (found.stream, found.sha256, found.base_sha256)
    if {*map(type, numbers)} != {int} or {*map(type, texts)} != {str}:
        raise TypeError
    if min(numbers[:3]) < 0:
        raise ValueError
    return found


def _check_head(head: dict[str, Any]) -> dict[str, Any]:
    """Return the stored head (last known event) of a log.

    Raises TypeError or ValueError if it is malformed.
    """
    if head and not (type(head["version"]) is int and isinstance(head["hash"], str)):
        raise TypeError
    if head and not 0 < head["version"] <= sys.maxsize:
        raise ValueError
    return head


def read_sync_when_caught_up(
    path: Path, names: Iterable[str], newest: RecordedEvent | None
) -> Sync:
    """Return the content of ``sync.json``, after waiting for the newest event.

    The wait is at most half a second. It is needed because another command may still be writing.
    """
    shown = list(names)
    sync = read_sync(path)
    if newest is None or not (system_clock() - datetime.fromisoformat(newest.recorded_at) < _LATE):
        return sync
    for pause in _PAUSES:
        if all(sync.version(name) >= newest.version for name in shown):
            break
        time.sleep(pause)
        sync = read_sync(path)
    return sync


def write_sync(path: Path, sync: Sync) -> None:
    """Replace the file ``sync.json``."""
    content = json.dumps({"format": 1, **asdict(sync)}, indent=1, sort_keys=True)
    write_whole(path, content.encode() + b"\n")
