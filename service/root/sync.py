"""``sync.json``: up to where each file shows the log, and its digest as it was written."""

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
from eventstore.private import read_regular
from service.root.disk import Mark, system_clock, write_whole

#: The digest of a file that only grows is taken in two: once its newer part is longer than this
#: (bytes), it is joined to the older one. So an append hashes the newer part alone.
NEWER_PART = 64 * 1024

#: Between two looks at whether a file shows what was appended (s); half a second in all.
_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.2)
#: Whoever appended has written the files by then, or never will: it died, or has a root elsewhere.
_LATE = timedelta(seconds=2)

_OF_NOTHING = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Synced:
    """One file as wfctl left it: size in bytes, the log's version it shows.

    ``sha256``, in hex, is that of the bytes from ``base`` on, ``base_sha256`` that of those
    before. ``mark`` tells whether the file can have been touched since.
    """

    stream: str
    version: int
    size: int
    sha256: str
    base: int = 0
    base_sha256: str = _OF_NOTHING
    mark: Mark = field(default_factory=list)
    #: Whether the last byte ended a line.
    fresh: bool = True

    def shows(self, content: bytes) -> bool:
        """Whether ``content`` begins with the bytes that were left, each of them."""
        return (
            len(content) >= self.size
            and digest(content[: self.base]) == self.base_sha256
            and digest(content[self.base : self.size]) == self.sha256
        )


@dataclass(frozen=True, slots=True)
class Sync:
    """What ``sync.json`` holds."""

    head: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Synced] = field(default_factory=dict)

    def version(self, name: str) -> int:
        """Return the version that the file shows, 0 where it was never written."""
        return self.files[name].version if name in self.files else 0

    def having(self, name: str, entry: Synced) -> Sync:
        """Return this with the file ``name`` as it is now."""
        return replace(self, files={**self.files, name: entry})


def digest(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hex."""
    return sha256(content).hexdigest()


def read_sync(path: Path) -> Sync:
    """Return what ``sync.json`` holds; a missing or broken one means that nothing is known."""
    try:
        data = orjson.loads(read_regular(path))
        files = {name: _synced(entry) for name, entry in data["files"].items()}
        return Sync(_head(data["head"]), files)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Sync()


def _synced(entry: dict[str, Any]) -> Synced:
    """Return what is remembered of a file; raises TypeError where somebody wrote other things."""
    found = Synced(**entry)
    numbers = (found.version, found.size, found.base, *found.mark)
    texts = (found.stream, found.sha256, found.base_sha256)
    if not all(type(n) is int for n in numbers) or not all(isinstance(t, str) for t in texts):
        raise TypeError
    if min(numbers[:3]) < 0:
        raise ValueError
    return found


def _head(head: dict[str, Any]) -> dict[str, Any]:
    if head and not (type(head["version"]) is int and isinstance(head["hash"], str)):
        raise TypeError
    if head and not 0 < head["version"] <= sys.maxsize:
        raise ValueError
    return head


def caught_up(path: Path, names: Iterable[str], newest: RecordedEvent | None) -> Sync:
    """Return what ``sync.json`` holds, if it can be once the files show the newest event."""
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
    """Write ``sync.json`` whole."""
    content = json.dumps({"format": 1, **asdict(sync)}, indent=1, sort_keys=True)
    write_whole(path, content.encode() + b"\n")
