"""Checkpoints of a log by https://c2sp.org/tlog-checkpoint: read, kept in a root, and signed."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from eventstore.chain import START, Frontier, Link, digest, leaf_hash
from eventstore.errors import UnsoundLog
from eventstore.private import read_regular
from eventstore.store import EventStore
from service.consent.approvals import pinned_at
from service.errors import NotFound
from service.proofs import note as notes
from service.proofs.note import CheckpointDenied, Note, UnreadableNote, VerifierKey, read_note
from service.reading.stream_log import known_secret, own_secret
from service.root.disk import locked, state_folder, write_whole
from service.root.git import git
from service.root.root import Root

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
    root = notes.decoded(encoded)
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
    """Return the hash of a stream's first event, None of an empty stream."""
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
    """Yield the texts of the tags that hold checkpoints, none if there is no repository."""
    form = "--format=%(refname:strip=2)%00%(contents)%00"
    done = git(root.path, "for-each-ref", form, f"refs/tags/{_TAGS}/")
    if done is None or done.returncode != 0:
        return
    parts = done.stdout.split(b"\0")
    for name, content in zip(parts[::2], parts[1::2], strict=False):
        yield KeptNote(f"tag {name.decode(errors='replace').strip()}", content)


def _name(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.size:010}-{checkpoint.root.hex()[:12]}"


_NAMES = {notes.LOG: "checkpoint.key", notes.WITNESS: "witness.key"}


class Signer(NamedTuple):
    """A private key under a name."""

    key: Ed25519PrivateKey
    name: str
    kind: int

    @property
    def public(self) -> VerifierKey:
        """The key by which others check."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return VerifierKey(self.name, self.kind, raw)

    def signed(self, text: str) -> notes.Signature:
        """Return the signature of a note's text."""
        return notes.Signature(self.name, self.public.key_id, self.key.sign(text.encode()))

    def cosigned(self, text: str, time: int) -> notes.Signature:
        """Return a witness's signature of a checkpoint's text at a time, in seconds of POSIX."""
        made = self.signed(notes.cosigned(text, time))
        return made._replace(signature=time.to_bytes(notes.TIME_BYTES, "big") + made.signature)


def log_signer(origin: str) -> Signer:
    """Return this login's key for the log of an origin, made now if there is no key yet."""
    return Signer(_loaded(own_secret(_path(notes.LOG))), origin, notes.LOG)


def known_log_key(origin: str) -> VerifierKey | None:
    """Return the public key of this login for a log, None if it never made one."""
    secret = known_secret(_path(notes.LOG))
    return Signer(_loaded(secret), origin, notes.LOG).public if secret is not None else None


def witness_signer() -> Signer:
    """Return the key of this login as a witness, made now if there is no key yet.

    Its name is made from the key, so that no two witnesses share one.
    """
    unnamed = Signer(_loaded(own_secret(_path(notes.WITNESS))), "unnamed", notes.WITNESS)
    name = f"wfctl-witness/{sha256(unnamed.public.public).hexdigest()[:16]}"
    return unnamed._replace(name=name)


def _path(kind: int) -> Path:
    return state_folder() / _NAMES[kind]


def _loaded(secret: bytes | None) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if secret is None:
        raise OSError(f"no key could be kept in {state_folder()}")
    return Ed25519PrivateKey.from_private_bytes(secret)


class SignedCheckpoint(NamedTuple):
    """A checkpoint that this login signed, and the key by which others check it."""

    checkpoint: Checkpoint
    note: Note
    key: VerifierKey


#: A tree as far as it was built, and the link of the chain it ends with.
_Grown = tuple[Frontier, Link]


def sign(store: EventStore, stream: str, root: Path, upto: int | None = None) -> SignedCheckpoint:
    """Return a checkpoint of all events of a stream, signed with this login's key; or ``upto`` one.

    Raises `UnsoundLog` if the log is not sound, and `CheckpointDenied` if it did not grow from
    what this login signed, or pinned in ``root``, before.
    """
    first = first_hash(store, stream)
    if first is None:
        raise CheckpointDenied("expected a log with events, found none; nothing is signed of it")
    pins = pinned_at(root, stream)
    if pins and all(pin.first != first for pin in pins):
        raise CheckpointDenied(
            f"expected the log of which this login pinned the first event {pins[-1].first}, found "
            f"one that begins with {first}; nothing is signed. `wfctl pin` says more.",
            pinned=pins[-1].first,
            found=first,
        )
    origin = origin_of(stream, first)
    path = _memory(origin)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):
        tree, link = _grown_on(store, stream, _remembered(path))
        signed = _signed(origin, tree)
        peaks = [b64encode(peak).decode() for peak in tree.peaks]
        kept = {"size": tree.size, "hash": link.hash, "peaks": peaks, "note": str(signed.note)}
        write_whole(path, json.dumps(kept, indent=1, ensure_ascii=False).encode() + b"\n")
    if upto is None or upto == tree.size:
        return signed
    # It is a beginning of the log that was just held to what was signed before.
    return _signed(origin, _extended(store, stream, (Frontier(), START), upto)[0])


def _signed(origin: str, tree: Frontier) -> SignedCheckpoint:
    checkpoint, signer = Checkpoint(origin, tree.size, tree.root()), log_signer(origin)
    note = Note(str(checkpoint), (signer.signed(str(checkpoint)),))
    return SignedCheckpoint(checkpoint, note, signer.public)


def last_signed(origin: str) -> bytes | None:
    """Return the last checkpoint of a log that this login signed, as a note; None without one."""
    try:
        return str(json.loads(_memory(origin).read_text("utf-8"))["note"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _grown_on(store: EventStore, stream: str, before: _Grown) -> _Grown:
    head, (_, link) = store.head(stream), before
    end = head.version if head is not None else 0
    if end < link.version:
        raise CheckpointDenied(
            f"expected at least the {link.version} events of which this login signed a checkpoint, "
            f"found {end}: the log was cut, or an old copy was put back. Nothing is signed.",
            signed=link.version,
            found=end,
        )
    if link.version:
        found = next(iter(store.raw(stream, after=link.version - 1, upto=link.version)), None)
        if found is None or found.hash != link.hash:
            reason = f"expected the hash {link.hash}, of which this login signed a checkpoint"
            raise UnsoundLog(stream, link.version, "anchor", reason)
    return _extended(store, stream, before, end)


def _extended(store: EventStore, stream: str, before: _Grown, end: int) -> _Grown:
    tree, link = before
    read = store.read(stream, after=link, upto=end)
    for event, raw in zip(read, store.raw(stream, after=link.version, upto=end), strict=True):
        text = raw.text.encode("utf-8", "surrogateescape")
        if digest(text) != event.hash:
            raise UnsoundLog(stream, event.version, "altered", "it changed while it was read")
        tree.add(leaf_hash(text))
        link = Link(event.version, event.hash)
    return tree, link


def _memory(origin: str) -> Path:
    name = sha256(origin.encode()).hexdigest()[:40]
    return state_folder() / "checkpoints" / f"{name}.json"


def _remembered(path: Path) -> _Grown:
    """Return what was signed last; the empty tree if nothing was.

    Raises `CheckpointDenied` if it cannot be read: without it a second history could be signed.
    """
    try:
        kept = json.loads(path.read_text("utf-8"))
        peaks = [b64decode(one, validate=True) for one in kept["peaks"]]
        return Frontier(kept["size"], peaks), Link(kept["size"], str(kept["hash"]))
    except FileNotFoundError:
        return Frontier(), START
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointDenied(
            f"{path}: expected what this login signed of the log, found something else ({error}); "
            "nothing is signed. Move it away if a second history of this log is no danger.",
            path=str(path),
        ) from error
