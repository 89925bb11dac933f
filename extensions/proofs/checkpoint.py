"""Read, store and sign checkpoints of a log (https://c2sp.org/tlog-checkpoint).

A checkpoint is a signed statement about the size and hash of a log.
"""

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

from eventstore.chain import START, Link, sha256_hex
from eventstore.errors import UnsoundLog
from eventstore.merkle_tree import Frontier, leaf_hash
from eventstore.regular_files import read_regular
from eventstore.store import EventStore
from extensions.proofs import signed_note as notes
from extensions.proofs.errors import CheckpointDenied, UnreadableNote
from extensions.proofs.signed_note import Note, VerifierKey, read_note
from service.consent.approvals import pinned_at
from service.errors import NotFound
from service.reading.stream_log import get_or_create_secret, read_secret
from service.root.atomic_files import hold_lock, state_folder, write_whole
from service.root.git import run_git
from service.root.root import Root

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_ROOT_BYTES = 32
_FIRST = 16


class Checkpoint(NamedTuple):
    """The state of a log: its name ``origin``, its number of events ``size``, and a hash.

    ``root`` is the hash of a tree with all events (32 bytes).
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = (self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)


def origin_of(stream: str, first: str) -> str:
    """Return the name of a log: its stream and the hash of its first event."""
    return f"wfctl/{quote(stream, safe='-._~')}/{first[:_FIRST]}"


def is_of_stream(origin: str, stream: str) -> bool:
    """Return whether a log with this name belongs to the stream.

    The first event of the log, which is a part of its name, is ignored.
    """
    return origin[:-_FIRST] == origin_of(stream, "")


def read_checkpoint(note: Note) -> Checkpoint:
    """Return the checkpoint in the text of a signed note.

    Raises `UnreadableNote` if the text is not a checkpoint.
    """
    lines = note.text.removesuffix("\n").split("\n")
    if len(lines) < 3 or not all(lines) or not lines[0].isprintable():
        raise UnreadableNote(
            "the text is not a checkpoint. A checkpoint starts with three lines: an origin, a "
            "size and a root hash"
        )
    origin, size, encoded = lines[:3]
    root = notes.decode_base64(encoded)
    if not _SIZE.fullmatch(size) or len(root) != _ROOT_BYTES:
        raise UnreadableNote(
            f"a checkpoint must contain a size and a root hash of {_ROOT_BYTES} bytes, but this "
            f"checkpoint contains the size {size!r:.40} and a root hash of {len(root)} bytes"
        )
    return Checkpoint(origin, int(size), root, tuple(lines[3:]))


def text_at(store: EventStore, stream: str, version: int) -> bytes:
    """Return the text of the event at a version, as it was hashed."""
    raw = next(iter(store.raw(stream, after=version - 1, upto=version)))
    return raw.text.encode("utf-8", "surrogateescape")


def iterate_leaves(store: EventStore, stream: str, upto: int | None = None) -> Iterator[bytes]:
    """Yield the tree hashes of a stream's events in order, without checking the events."""
    for raw in store.raw(stream, upto=upto):
        yield leaf_hash(raw.text.encode("utf-8", "surrogateescape"))


def first_hash(store: EventStore, stream: str) -> str | None:
    """Return the hash of a stream's first event, or None if the stream is empty."""
    first = next(iter(store.raw(stream, upto=1)), None)
    return first.hash if first is not None else None


_TAGS, _FOLDER = "wfctl-checkpoint", ".wfctl/checkpoints"


class KeptNote(NamedTuple):
    """A signed note that may be a checkpoint, and the place where it was found."""

    place: str
    content: bytes


def keep_checkpoint(root: Root, checkpoint: Checkpoint, note: Note) -> tuple[Path, Note]:
    """Store a checkpoint in the workflow folder.

    Returns the file, and the note with all signatures in this file.
    """
    path = root.below(f"{_FOLDER}/{_file_stem(checkpoint)}.checkpoint")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(UnreadableNote):
        earlier = read_note(_read_content(path))
        if earlier.text == note.text:
            every = {(one.name, one.key_id): one for one in (*earlier.signatures, *note.signatures)}
            note = Note(note.text, tuple(every.values()))
    write_whole(path, str(note).encode())
    return path, note


def iterate_note_files(root: Root) -> Iterator[KeptNote]:
    """Yield the signed notes in the folder for checkpoints."""
    for path in sorted(root.below(_FOLDER).glob("*.checkpoint")):
        yield KeptNote(str(path.relative_to(root.path)), _read_content(path))


def _read_content(path: Path) -> bytes:
    """Return the content of a file, or empty bytes if the file cannot be read."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def tag_checkpoint(root: Root, checkpoint: Checkpoint, note: Note) -> str:
    """Store a checkpoint as an annotated Git tag, and return the name of the tag.

    Raises `NotFound` if git or a repository is missing.
    """
    name = f"{_TAGS}/{_file_stem(checkpoint)}"
    if name not in {one.place.removeprefix("tag ") for one in iterate_checkpoint_tags(root)}:
        done = run_git(
            root.path, "tag", "-a", "--cleanup=verbatim", "-F", "-", name, text=str(note)
        )
        if done is None or done.returncode != 0:
            said = (
                done.stderr.decode(errors="replace").strip()
                if done is not None
                else "git is not installed"
            )
            raise NotFound(
                f"git cannot create a tag for the checkpoint in the folder {root.path}: {said}",
                path=str(root.path),
            )
    return name


def iterate_checkpoint_tags(root: Root) -> Iterator[KeptNote]:
    """Yield the checkpoints that are stored as Git tags.

    Without a Git repository, the result is empty.
    """
    form = "--format=%(refname:strip=2)%00%(contents)%00"
    done = run_git(root.path, "for-each-ref", form, f"refs/tags/{_TAGS}/")
    if done is None or done.returncode != 0:
        return
    parts = done.stdout.split(b"\0")
    for name, content in zip(parts[::2], parts[1::2], strict=False):
        yield KeptNote(f"tag {name.decode(errors='replace').strip()}", content)


def _file_stem(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.size:010}-{checkpoint.root.hex()[:12]}"


_NAMES = {notes.LOG: "checkpoint.key", notes.WITNESS: "witness.key"}


class Signer(NamedTuple):
    """A private key and its name."""

    key: Ed25519PrivateKey
    name: str
    kind: int

    @property
    def public(self) -> VerifierKey:
        """The public key with which others verify the signatures of this key."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return VerifierKey(self.name, self.kind, raw)

    def signed(self, text: str) -> notes.Signature:
        """Return the signature of a note with the given text."""
        return notes.Signature(self.name, self.public.key_id, self.key.sign(text.encode()))

    def cosigned(self, text: str, time: int) -> notes.Signature:
        """Return a witness's signature of a checkpoint with the given text.

        ``time`` is the time of signing in POSIX seconds.
        """
        made = self.signed(notes.format_cosigned_text(text, time))
        return made._replace(signature=time.to_bytes(notes.TIME_BYTES, "big") + made.signature)


def load_or_create_log_signer(origin: str) -> Signer:
    """Return this user's private key for a log, creating the key if needed."""
    return Signer(_load_private_key(get_or_create_secret(_key_path(notes.LOG))), origin, notes.LOG)


def find_log_key(origin: str) -> VerifierKey | None:
    """Return this user's public key for a log, or None if the user has no key."""
    secret = read_secret(_key_path(notes.LOG))
    return (
        Signer(_load_private_key(secret), origin, notes.LOG).public if secret is not None else None
    )


def load_or_create_witness_signer() -> Signer:
    """Return this user's private key as a witness, creating the key if needed.

    The name of the witness is derived from the key, so that no two witnesses have the same name.
    """
    unnamed = Signer(
        _load_private_key(get_or_create_secret(_key_path(notes.WITNESS))), "unnamed", notes.WITNESS
    )
    name = f"wfctl-witness/{sha256(unnamed.public.public).hexdigest()[:16]}"
    return unnamed._replace(name=name)


def _key_path(kind: int) -> Path:
    return state_folder() / _NAMES[kind]


def _load_private_key(secret: bytes | None) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if secret is None:
        raise OSError(f"wfctl cannot store a key in {state_folder()}")
    return Ed25519PrivateKey.from_private_bytes(secret)


class SignedCheckpoint(NamedTuple):
    """A checkpoint that this user signed, and the public key that verifies it."""

    checkpoint: Checkpoint
    note: Note
    key: VerifierKey


#: A partly built hash tree, and the last event that it contains.
_Grown = tuple[Frontier, Link]


def sign_checkpoint(
    store: EventStore, stream: str, root: Path, upto: int | None = None
) -> SignedCheckpoint:
    """Sign a checkpoint of all events of a stream, or of the first ``upto`` events.

    Raises `UnsoundLog` if the log is damaged. Raises `CheckpointDenied` if the log is not an
    extension of the log that this user signed before, or if its first event differs from the pinned
    one.
    """
    first = first_hash(store, stream)
    if first is None:
        raise CheckpointDenied("the log contains no events, so wfctl cannot sign a checkpoint")
    pins = pinned_at(root, stream)
    if pins and all(pin.first != first for pin in pins):
        raise CheckpointDenied(
            "this log is not the log that this user account pinned. The pinned log starts with "
            f"the event {pins[-1].first}, but this log starts with the event {first}. Nothing was "
            "signed. Run `wfctl pin` for details.",
            pinned=pins[-1].first,
            found=first,
        )
    origin = origin_of(stream, first)
    path = _memory_path(origin)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(path.with_suffix(".lock")):
        tree, link = _extend_checked_tree(store, stream, _load_last_tree(path))
        signed = _sign_tree(origin, tree)
        peaks = [b64encode(peak).decode() for peak in tree.peaks]
        kept = {"size": tree.size, "hash": link.hash, "peaks": peaks, "note": str(signed.note)}
        write_whole(path, json.dumps(kept, indent=1, ensure_ascii=False).encode() + b"\n")
    if upto is None or upto == tree.size:
        return signed
    # No further check is needed: these events are the start of the log that was just compared with
    # earlier signatures.
    return _sign_tree(origin, _extend_tree(store, stream, (Frontier(), START), upto)[0])


def _sign_tree(origin: str, tree: Frontier) -> SignedCheckpoint:
    checkpoint, signer = (
        Checkpoint(origin, tree.size, tree.root()),
        load_or_create_log_signer(origin),
    )
    note = Note(str(checkpoint), (signer.signed(str(checkpoint)),))
    return SignedCheckpoint(checkpoint, note, signer.public)


def last_signed(origin: str) -> bytes | None:
    """Return the last checkpoint of a log that this user signed, as a note, or None."""
    try:
        return str(json.loads(_memory_path(origin).read_text("utf-8"))["note"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _extend_checked_tree(store: EventStore, stream: str, before: _Grown) -> _Grown:
    head, (_, link) = store.head(stream), before
    end = head.version if head is not None else 0
    if end < link.version:
        raise CheckpointDenied(
            f"the log has {end} events, but this user account already signed a checkpoint of "
            f"{link.version} events. Either events were removed from the log, or an old copy was "
            "restored. Nothing was signed.",
            signed=link.version,
            found=end,
        )
    if link.version:
        found = next(iter(store.raw(stream, after=link.version - 1, upto=link.version)), None)
        if found is None or found.hash != link.hash:
            reason = (
                f"the hash differs from {link.hash}, of which this user account signed a checkpoint"
            )
            raise UnsoundLog(stream, link.version, "anchor", reason)
    return _extend_tree(store, stream, before, end)


def _extend_tree(store: EventStore, stream: str, before: _Grown, end: int) -> _Grown:
    tree, link = before
    read = store.read(stream, after=link, upto=end)
    for event, raw in zip(read, store.raw(stream, after=link.version, upto=end), strict=True):
        text = raw.text.encode("utf-8", "surrogateescape")
        if sha256_hex(text) != event.hash:
            raise UnsoundLog(stream, event.version, "altered", "the log changed while it was read")
        tree.add(leaf_hash(text))
        link = Link(event.version, event.hash)
    return tree, link


def _memory_path(origin: str) -> Path:
    name = sha256(origin.encode()).hexdigest()[:40]
    return state_folder() / "checkpoints" / f"{name}.json"


def _load_last_tree(path: Path) -> _Grown:
    """Return the hash tree of the last signature, or an empty tree if nothing was signed.

    Raises `CheckpointDenied` if the stored tree cannot be read. Otherwise, this user could sign a
    second, different history.
    """
    try:
        kept = json.loads(path.read_text("utf-8"))
        peaks = [b64decode(one, validate=True) for one in kept["peaks"]]
        return Frontier(kept["size"], peaks), Link(kept["size"], str(kept["hash"]))
    except FileNotFoundError:
        return Frontier(), START
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointDenied(
            f"the file {path}, which records what this user account signed, is damaged ({error}). "
            "Nothing was signed. If you move the file away, wfctl can sign again, but it cannot "
            "detect a second history of this log.",
            path=str(path),
        ) from error
