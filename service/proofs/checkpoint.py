"""A checkpoint of a log, by the text https://c2sp.org/tlog-checkpoint: its origin, size and root.

The leaves are the stored events of one stream, byte for byte as they were hashed: leaf 0 is version
1. The origin holds the beginning of the hash of version 1, so that no two logs share one.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from eventstore.merkle import leaf_hash
from eventstore.store import EventStore
from service.proofs.errors import UnreadableNote
from service.proofs.note import Note, decoded

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_ROOT_BYTES = 32
_FIRST = 16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log was: ``size`` events with the root hash ``root`` (32 bytes)."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = (self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def origin_of(stream: str, first: str) -> str:
    """Return the name of a log: its stream, and the hash of its first event, in hex."""
    return f"{_beginning(stream)}{first[:_FIRST]}"


def is_of_stream(origin: str, stream: str) -> bool:
    """Whether an origin is one that the stream may have, with whatever first event."""
    begin = _beginning(stream)
    return origin.startswith(begin) and len(origin) == len(begin) + _FIRST


def _beginning(stream: str) -> str:
    return f"wfctl/{quote(stream, safe='-._~')}/"


def read_checkpoint(note: Note) -> Checkpoint:
    """Return the checkpoint that a note's text is; raises `UnreadableNote`."""
    lines = note.text.removesuffix("\n").split("\n")
    if len(lines) < 3 or not all(lines):
        raise UnreadableNote("expected a checkpoint: lines of an origin, a size and a root hash")
    origin, size, encoded = lines[:3]
    root = decoded(encoded)
    if not _SIZE.fullmatch(size) or len(root) != _ROOT_BYTES:
        raise UnreadableNote(
            f"expected a size and a root hash of {_ROOT_BYTES} bytes, found {size!r:.40} and "
            f"{len(root)} bytes"
        )
    return Checkpoint(origin, int(size), root, tuple(lines[3:]))


def leaves(store: EventStore, stream: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield the hashes of a stream's leaves, unchecked, in order."""
    for raw in store.raw(stream, upto=upto):
        yield leaf_hash(raw.text.encode("utf-8", "surrogateescape"))


def first_hash(store: EventStore, stream: str) -> str | None:
    """Return the hash of a stream's first event, None where there is none."""
    first = next(iter(store.raw(stream, upto=1)), None)
    return first.hash if first is not None else None
