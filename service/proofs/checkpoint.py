"""Checkpoints of a log by https://c2sp.org/tlog-checkpoint, and where a root keeps them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from eventstore.chain import leaf_hash
from eventstore.private import read_regular
from eventstore.store import EventStore
from service.errors import NotFound
from service.proofs.note import Note, UnreadableNote, decoded, read_note
from service.root.disk import write_whole
from service.root.git import git
from service.root.root import Root

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_ROOT_BYTES = 32
_FIRST = 16


class Checkpoint(NamedTuple):
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
    return f"wfctl/{quote(stream, safe='-._~')}/{first[:_FIRST]}"


def is_of_stream(origin: str, stream: str) -> bool:
    """Whether an origin is one that the stream may have, with whatever first event."""
    return origin[:-_FIRST] == origin_of(stream, "")


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


def text_at(store: EventStore, stream: str, version: int) -> bytes:
    """Return the text of an event as it was hashed."""
    raw = next(iter(store.raw(stream, after=version - 1, upto=version)))
    return raw.text.encode("utf-8", "surrogateescape")


def leaves(store: EventStore, stream: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield the hashes of a stream's leaves, unchecked, in order."""
    for raw in store.raw(stream, upto=upto):
        yield leaf_hash(raw.text.encode("utf-8", "surrogateescape"))


def first_hash(store: EventStore, stream: str) -> str | None:
    """Return the hash of a stream's first event, None where there is none."""
    first = next(iter(store.raw(stream, upto=1)), None)
    return first.hash if first is not None else None


_TAGS, _FOLDER = "wfctl-checkpoint", ".wfctl/checkpoints"


class KeptNote(NamedTuple):
    """A note that may be a checkpoint, and where it was found."""

    place: str
    content: bytes


def keep(root: Root, checkpoint: Checkpoint, note: Note) -> tuple[Path, Note]:
    """Keep a checkpoint in the root; return its file, and the note with all signatures it has."""
    path = root.below(f"{_FOLDER}/{_name(checkpoint)}.checkpoint")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(UnreadableNote):
        earlier = read_note(_content(path))
        if earlier.text == note.text:
            every = {(one.name, one.key_id): one for one in (*earlier.signatures, *note.signatures)}
            note = Note(note.text, tuple(every.values()))
    write_whole(path, str(note).encode())
    return path, note


def kept_files(root: Root) -> Iterator[KeptNote]:
    """Yield what lies in the folder of checkpoints."""
    for path in sorted(root.below(_FOLDER).glob("*.checkpoint")):
        yield KeptNote(str(path.relative_to(root.path)), _content(path))


def _content(path: Path) -> bytes:
    """Return what a file holds; nothing of one that cannot be read, which is told then."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def tag(root: Root, checkpoint: Checkpoint, note: Note) -> str:
    """Keep a checkpoint as an annotated tag and return its name; raises `NotFound` without git."""
    name = f"{_TAGS}/{_name(checkpoint)}"
    if name not in {one.place.removeprefix("tag ") for one in kept_tags(root)}:
        done = git(root.path, "tag", "-a", "--cleanup=verbatim", "-F", "-", name, text=str(note))
        if done is None or done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip() if done is not None else "no git"
            raise NotFound(
                f"{root.path} has no git repository that takes a tag: {said}", path=str(root.path)
            )
    return name


def kept_tags(root: Root) -> Iterator[KeptNote]:
    """Yield the texts of the tags that hold checkpoints, none where there is no repository."""
    form = "--format=%(refname:strip=2)%00%(contents)%00"
    done = git(root.path, "for-each-ref", form, f"refs/tags/{_TAGS}/")
    if done is None or done.returncode != 0:
        return
    parts = done.stdout.split(b"\0")
    for name, content in zip(parts[::2], parts[1::2], strict=False):
        yield KeptNote(f"tag {name.decode(errors='replace').strip()}", content)


def _name(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.size:010}-{checkpoint.root.hex()[:12]}"
