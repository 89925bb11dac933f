"""Signing checkpoints: what this login signed of a log last, and the next that follows."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from eventstore.chain import START, Frontier, Link, leaf_hash
from eventstore.codec import digest
from eventstore.errors import UnsoundLog
from eventstore.store import EventStore
from service.consent.approvals import pinned_at
from service.proofs.checkpoint import Checkpoint, first_hash, origin_of
from service.proofs.note import (
    LOG,
    TIME_BYTES,
    WITNESS,
    CheckpointDenied,
    Note,
    Signature,
    VerifierKey,
    cosigned,
)
from service.reading.sealing import key_file, known_secret, own_secret
from service.root.disk import locked, write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_NAMES = {LOG: "checkpoint.key", WITNESS: "witness.key"}


def state_folder() -> Path:
    """Return the folder in which this login keeps what it knows of logs, outside every root."""
    return key_file().parent


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

    def signed(self, text: str) -> Signature:
        """Return the signature of a note's text."""
        return Signature(self.name, self.public.key_id, self.key.sign(text.encode()))

    def cosigned(self, text: str, time: int) -> Signature:
        """Return a witness's signature of a checkpoint's text at a time, in seconds of POSIX."""
        made = self.signed(cosigned(text, time))
        return made._replace(signature=time.to_bytes(TIME_BYTES, "big") + made.signature)


def log_signer(origin: str) -> Signer:
    """Return this login's key for the log of an origin, made now if there is none."""
    return Signer(_loaded(own_secret(_path(LOG))), origin, LOG)


def known_log_key(origin: str) -> VerifierKey | None:
    """Return the public key of this login for a log, None if it never made one."""
    secret = known_secret(_path(LOG))
    return Signer(_loaded(secret), origin, LOG).public if secret is not None else None


def witness_signer() -> Signer:
    """Return the key of this login as a witness, made now if there is none.

    Its name is made from the key, so that no two witnesses share one.
    """
    unnamed = Signer(_loaded(own_secret(_path(WITNESS))), "unnamed", WITNESS)
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
        _remember(path, tree, link, signed.note)
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


def _remember(path: Path, tree: Frontier, link: Link, note: Note) -> None:
    peaks = [b64encode(peak).decode() for peak in tree.peaks]
    content = {"size": tree.size, "hash": link.hash, "peaks": peaks, "note": str(note)}
    write_whole(path, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")
