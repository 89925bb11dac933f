"""``sync.json``: up to where each file shows the log, and its digest as it was written.

It is also the anchor outside the chain: the version and hash of the log's head.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from service.disk import write_whole


@dataclass(frozen=True, slots=True)
class Synced:
    """One file as wfctl left it: size in bytes, SHA-256 in hex, the log's version it shows."""

    stream: str
    version: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Sync:
    """What ``sync.json`` holds."""

    head: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Synced] = field(default_factory=dict)

    def version(self, name: str) -> int:
        """Return the version that the file shows, 0 where it was never written."""
        return self.files[name].version if name in self.files else 0

    def having(self, name: str, stream: str, version: int, content: bytes) -> Sync:
        """Return this with the file ``name`` as it is now."""
        entry = Synced(stream, version, len(content), digest(content))
        return replace(self, files={**self.files, name: entry})


def digest(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hex."""
    return sha256(content).hexdigest()


def read_sync(path: Path) -> Sync:
    """Return what ``sync.json`` holds; a missing or broken one means that nothing is known."""
    try:
        data = json.loads(path.read_bytes())
        files = {name: Synced(**entry) for name, entry in data["files"].items()}
        return Sync(data["head"], files)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Sync()


def write_sync(path: Path, sync: Sync) -> None:
    """Write ``sync.json`` whole."""
    content = json.dumps({"format": 1, **asdict(sync)}, indent=1, sort_keys=True)
    write_whole(path, content.encode() + b"\n")
