"""Witnesses, by https://c2sp.org/tlog-witness: one that cosigns, and how others are asked."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.chain import EMPTY, consistency_ranges, is_consistent, nodes
from eventstore.store import EventStore
from service.errors import InvalidOption, NotFound
from service.proofs import note as notes
from service.proofs.checkpoint import (
    Checkpoint,
    KeptNote,
    leaves,
    read_checkpoint,
    witness_signer,
)
from service.proofs.note import Note, NotWitnessed, UnreadableNote, VerifierKey, read_note
from service.root.disk import locked, state_folder, write_whole

#: What the protocol calls the type of a conflict's answer.
SIZE_TYPE = "text/x.tlog.size"
_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})", re.ASCII)
_MOST_PROOF = 63


class Reply(NamedTuple):
    """An answer of the protocol: a status of HTTP, a body and its type."""

    status: int
    body: str
    kind: str = "text/plain; charset=utf-8"


class _CosignRequest(NamedTuple):
    """A request to cosign: the size it says the witness knows, a proof, and a checkpoint."""

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


class WitnessedLog(NamedTuple):
    """A log that a witness was told of: its keys, and the note that was cosigned last."""

    origin: str
    keys: tuple[str, ...]
    note: str | None = None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What was cosigned last."""
        return read_checkpoint(read_note(self.note.encode())) if self.note is not None else None


class Witness:
    """The witness of this login; ``now`` gives the seconds of POSIX."""

    def __init__(self, now: Callable[[], int], folder: Path | None = None) -> None:
        self._now = now
        self._folder = folder or state_folder() / "witness"

    def watch(self, key: VerifierKey) -> WitnessedLog:
        """Take in a log by its public key; what was seen of it before stays."""
        if key.kind != notes.LOG:
            raise UnreadableNote(f"expected the key of a log, found that of a witness: {key}")
        with self._locked():
            seen = self.seen(key.name) or WitnessedLog(key.name, ())
            new = seen._replace(keys=tuple(dict.fromkeys([*seen.keys, str(key)])))
            self._keep(new)
        return new

    def seen(self, origin: str) -> WitnessedLog | None:
        """Return what is known of a log, None if the witness was not told of it."""
        try:
            return _seen(self._path(origin))
        except FileNotFoundError:
            return None

    def all_seen(self) -> Iterator[WitnessedLog]:
        """Yield every log that the witness was told of."""
        yield from map(_seen, sorted(self._folder.glob("*.json")))

    def latest(self, origin_hash: str) -> str:
        """Return the note cosigned last for an origin, given as SHA-256 in hex; or `NotFound`."""
        for seen in self.all_seen():
            if sha256(seen.origin.encode()).hexdigest() == origin_hash and seen.note is not None:
                return seen.note
        raise NotFound("this witness has cosigned no checkpoint of that log")

    def answer(self, body: bytes) -> Reply:
        """Return the answer to a request ``add-checkpoint``; what is cosigned is kept first."""
        try:
            request = _read_request(body)
            with self._locked():
                return self._cosigned(request)
        except UnreadableNote as error:
            return Reply(400, f"{error.message}\n")
        except notes.UnverifiedNote as error:
            return Reply(403, f"{error.message}\n")

    def _cosigned(self, request: _CosignRequest) -> Reply:
        seen = self.seen(request.checkpoint.origin)
        if seen is None:
            return Reply(404, "this witness was not told of a log of that origin\n")
        keys = [notes.read_key(key) for key in seen.keys]
        notes.verified(request.note, keys)
        refused = _refused(request, seen.checkpoint)
        if refused is not None:
            return refused
        line = witness_signer().cosigned(request.note.text, self._now())
        theirs = [s for s in request.note.signatures if any(key.made(s) for key in keys)]
        self._keep(seen._replace(note=str(Note(request.note.text, (*theirs, line)))))
        return Reply(200, line.line())

    def _locked(self) -> Any:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return locked(self._folder / "lock")

    def _keep(self, seen: WitnessedLog) -> None:
        text = json.dumps(seen._asdict(), indent=1, ensure_ascii=False)
        write_whole(self._path(seen.origin), text.encode() + b"\n")

    def _path(self, origin: str) -> Path:
        return self._folder / f"{sha256(origin.encode()).hexdigest()}.json"


def _refused(request: _CosignRequest, known: Checkpoint | None) -> Reply | None:
    """Return the answer to a checkpoint that does not grow from the one that is known."""
    old, new = known or Checkpoint(request.checkpoint.origin, 0, EMPTY), request.checkpoint
    if request.old > new.size:
        return Reply(400, "the old size is larger than that of the checkpoint\n")
    if request.old != old.size:
        return Reply(409, f"{old.size}\n", SIZE_TYPE)
    if new.size == 0 and new.root != EMPTY:
        return Reply(422, "a checkpoint without events has the root of the empty tree\n")
    if not is_consistent(old.size, old.root, new.size, new.root, request.proof):
        return Reply(422, "the checkpoint does not follow from the one seen before: a fork\n")
    return None


def _seen(path: Path) -> WitnessedLog:
    kept = json.loads(path.read_text("utf-8"))
    return WitnessedLog(str(kept["origin"]), tuple(map(str, kept["keys"])), kept["note"])


def _read_request(body: bytes) -> _CosignRequest:
    head, blank, rest = body.partition(b"\n\n")
    if not blank:
        raise UnreadableNote("expected an old size, a proof, an empty line and a checkpoint")
    first, *proof = head.decode("utf-8", "replace").split("\n")
    old = _OLD.fullmatch(first)
    if old is None or len(proof) > _MOST_PROOF:
        raise UnreadableNote(
            f"expected 'old SIZE' and at most {_MOST_PROOF} lines of a proof, found {first!r:.60} "
            f"and {len(proof)} lines"
        )
    note = read_note(rest)
    return _CosignRequest(
        int(old[1]), tuple(map(notes.decoded, proof)), note, read_checkpoint(note)
    )


_SECONDS, _MOST_BYTES = 30, 1_000_000
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
    reply = _sent(url, "add-checkpoint", request_of(store, stream, checkpoint, note, 0))
    if reply.status == _CONFLICT:
        said = reply.body.strip()
        if not said.isdecimal() or len(said) > 19:
            text = f"{url}: expected the size it knows, found {reply.body!r:.80}"
            raise NotWitnessed(text, url=url)
        old = int(said)
        if old > checkpoint.size:
            raise NotWitnessed(
                f"{url} has seen {old} events of this log, found {checkpoint.size}: the log was "
                "cut, or an old copy was put back",
                url=url,
                seen=old,
            )
        reply = _sent(url, "add-checkpoint", request_of(store, stream, checkpoint, note, old))
    if reply.status != _DONE:
        raise NotWitnessed(
            f"{url} did not cosign the checkpoint ({reply.status}): {reply.body.strip():.300}",
            url=url,
            status=reply.status,
        )
    theirs = tuple(one for one in notes.read_signatures(reply.body) if key.made(one))
    notes.verified(Note(note.text, theirs), [key])
    return Note(note.text, (*note.signatures, *theirs))


def last_seen(url: str, origin: str) -> KeptNote:
    """Return the checkpoint that a witness cosigned last; raises `NotWitnessed`."""
    reply = _sent(url, f"{sha256(origin.encode()).hexdigest()}/checkpoint")
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


def _sent(url: str, path: str, body: bytes | None = None) -> Reply:
    """Return the answer to a GET, or to a POST of a body; raises `NotWitnessed`."""
    if not url.startswith(("http://", "https://")):
        raise InvalidOption(f"expected http://… or https://… of a witness, found {url!r:.80}")
    request = urllib.request.Request(f"{url.rstrip('/')}/{path}", data=body)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return Reply(reply.status, reply.read(_MOST_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read(_MOST_BYTES).decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError) as error:
        raise NotWitnessed(f"{request.full_url}: the witness was not reached: {error}") from error


def keys_named(texts: Sequence[str]) -> list[VerifierKey]:
    """Return the public keys that texts are, or that the files they name hold."""
    keys: list[VerifierKey] = []
    for text in texts:
        try:
            keys.append(notes.read_key(text if "+" in text else Path(text).read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(
                f"expected a public key NAME+ID+BASE64 or a file that holds one, found {text!r:.80}"
            ) from error
    return keys
