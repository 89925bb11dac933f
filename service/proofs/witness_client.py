"""Asking a witness for its cosignature, and for what it saw last."""

from __future__ import annotations

import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

from eventstore.chain import consistency_ranges, nodes
from eventstore.store import EventStore
from service.errors import InvalidOption
from service.proofs.checkpoint import Checkpoint, KeptNote, leaves
from service.proofs.errors import NotWitnessed
from service.proofs.note import Note, VerifierKey, read_signatures, verified
from service.proofs.witness import Reply

_SECONDS = 30
_MOST_BYTES = 1_000_000
_DONE, _NOT_FOUND, _CONFLICT = 200, 404, 409


def request_of(
    store: EventStore, stream: str, checkpoint: Checkpoint, note: Note, old: int
) -> bytes:
    """Return the body that asks to cosign a checkpoint, where ``old`` events are known."""
    ranges = consistency_ranges(old, checkpoint.size) if 0 < old <= checkpoint.size else []
    found = nodes(leaves(store, stream, checkpoint.size), ranges) if ranges else {}
    proof = "".join(f"{b64encode(found[place]).decode()}\n" for place in ranges)
    return f"old {old}\n{proof}\n{note}".encode()


def cosignature(
    store: EventStore,
    stream: str,
    checkpoint: Checkpoint,
    note: Note,
    *,
    url: str,
    key: VerifierKey,
) -> Note:
    """Return the note with the cosignature of the witness at ``url``; raises `NotWitnessed`."""
    reply = _post(url, request_of(store, stream, checkpoint, note, 0))
    if reply.status == _CONFLICT:
        old = _size(reply.body, url)
        if old > checkpoint.size:
            raise NotWitnessed(
                f"{url} has seen {old} events of this log, found {checkpoint.size}: the log was "
                "cut, or an old copy was put back",
                url=url,
                seen=old,
            )
        reply = _post(url, request_of(store, stream, checkpoint, note, old))
    if reply.status != _DONE:
        raise NotWitnessed(
            f"{url} did not cosign the checkpoint ({reply.status}): {reply.body.strip():.300}",
            url=url,
            status=reply.status,
        )
    return _with_cosignature(note, reply.body, key)


def _with_cosignature(note: Note, lines: str, key: VerifierKey) -> Note:
    theirs = tuple(one for one in read_signatures(lines) if key.made(one))
    verified(Note(note.text, theirs), [key])
    return Note(note.text, (*note.signatures, *theirs))


def last_seen(url: str, origin: str) -> KeptNote:
    """Return the checkpoint that a witness cosigned last; raises `NotWitnessed`."""
    asked = f"{_prefix(url)}/{sha256(origin.encode()).hexdigest()}/checkpoint"
    reply = _sent(urllib.request.Request(asked))
    if reply.status == _NOT_FOUND:
        raise NotWitnessed(
            f"{url} has never cosigned a log of the origin {origin}: this log was not sent to it, "
            "or it lies in the place of another",
            url=url,
            origin=origin,
        )
    if reply.status != _DONE:
        raise NotWitnessed(f"{url} answered {reply.status}: {reply.body.strip():.300}", url=url)
    return KeptNote(f"the witness {url}", reply.body.encode())


def _post(url: str, body: bytes) -> Reply:
    asked = f"{_prefix(url)}/add-checkpoint"
    return _sent(urllib.request.Request(asked, data=body, method="POST"))


def _prefix(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidOption(f"expected http://… or https://… of a witness, found {url!r:.80}")
    return url.rstrip("/")


def _sent(request: urllib.request.Request) -> Reply:
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return Reply(reply.status, reply.read(_MOST_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read(_MOST_BYTES).decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError) as error:
        raise NotWitnessed(f"{request.full_url}: the witness was not reached: {error}") from error


def _size(body: str, url: str) -> int:
    text = body.strip()
    if not text.isdecimal() or len(text) > 19:
        raise NotWitnessed(f"{url}: expected the size it knows, found {body!r:.80}", url=url)
    return int(text)


def keys_named(texts: Sequence[str]) -> list[VerifierKey]:
    """Return the public keys that texts are, or that the files they name hold."""
    from service.proofs.note import read_key

    return [read_key(text if "+" in text else _content(text)) for text in texts]


def _content(path: str) -> str:
    from pathlib import Path

    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(
            f"expected a public key NAME+ID+BASE64 or a file that holds one, found {path!r:.80}"
        ) from error
