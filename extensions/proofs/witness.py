"""Sign checkpoints as a witness, and request signatures of other witnesses.

A witness confirms that events were only added to a log (https://c2sp.org/tlog-witness).
"""

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

from eventstore.merkle_tree import EMPTY, compute_node_hashes, consistency_ranges, is_consistent
from eventstore.store import EventStore
from extensions.proofs import signed_note as notes
from extensions.proofs.checkpoint import (
    Checkpoint,
    KeptNote,
    iterate_leaves,
    load_or_create_witness_signer,
    read_checkpoint,
)
from extensions.proofs.errors import NotWitnessed, UnreadableNote, UnverifiedNote
from extensions.proofs.signed_note import Note, VerifierKey, read_note
from service.errors import InvalidOption, NotFound
from service.root.atomic_files import hold_lock, state_folder, write_whole

#: Content type that the protocol defines for the answer to a request with an outdated size.
SIZE_TYPE = "text/x.tlog.size"
_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})", re.ASCII)
_MOST_PROOF = 63


class Reply(NamedTuple):
    """An answer to a request: the HTTP status, the body, and the content type."""

    status: int
    body: str
    kind: str = "text/plain; charset=utf-8"


class _CosignRequest(NamedTuple):
    """A request for the signature of a witness.

    ``old`` is the number of events that the witness is assumed to know. ``proof`` shows that the
    new checkpoint extends them.
    """

    old: int
    proof: tuple[bytes, ...]
    note: Note
    checkpoint: Checkpoint


class WitnessedLog(NamedTuple):
    """A log that a witness watches: its name, its keys, and the last signed checkpoint."""

    origin: str
    keys: tuple[str, ...]
    note: str | None = None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that the witness signed last, or None before the first signature."""
        return read_checkpoint(read_note(self.note.encode())) if self.note is not None else None


class Witness:
    """The witness of this user account. ``now`` returns the time in POSIX seconds."""

    def __init__(self, now: Callable[[], int], folder: Path | None = None) -> None:
        self._now = now
        self._folder = folder or state_folder() / "witness"

    def watch(self, key: VerifierKey) -> WitnessedLog:
        """Add a log with its public key. For a known log, keep the last signed checkpoint.

        Raises `UnreadableNote` if the key belongs to a witness instead of a log.
        """
        if key.kind != notes.LOG:
            raise UnreadableNote(
                f"the key {key} belongs to a witness, but wfctl needs the public key of a log here"
            )
        with self._lock_folder():
            seen = self.seen(key.name) or WitnessedLog(key.name, ())
            new = seen._replace(keys=tuple(dict.fromkeys([*seen.keys, str(key)])))
            self._write_seen(new)
        return new

    def seen(self, origin: str) -> WitnessedLog | None:
        """Return the record of a log, or None if the witness does not watch the log."""
        try:
            return _read_witnessed_log(self._seen_path(origin))
        except FileNotFoundError:
            return None

    def all_seen(self) -> Iterator[WitnessedLog]:
        """Yield the record of each watched log."""
        yield from map(_read_witnessed_log, sorted(self._folder.glob("*.json")))

    def latest(self, origin_hash: str) -> str:
        """Return the last signed checkpoint of a log, as a note.

        ``origin_hash`` is the SHA-256 of the log's name. Raises `NotFound` if nothing was signed.
        """
        for seen in self.all_seen():
            if sha256(seen.origin.encode()).hexdigest() == origin_hash and seen.note is not None:
                return seen.note
        raise NotFound("this witness has never cosigned a checkpoint of the requested log")

    def answer(self, body: bytes) -> Reply:
        """Answer an ``add-checkpoint`` request.

        A new signature is stored before it is returned.
        """
        try:
            request = _read_request(body)
            with self._lock_folder():
                return self._cosign_request(request)
        except UnreadableNote as error:
            return Reply(400, f"{error.message}\n")
        except UnverifiedNote as error:
            return Reply(403, f"{error.message}\n")

    def _cosign_request(self, request: _CosignRequest) -> Reply:
        seen = self.seen(request.checkpoint.origin)
        if seen is None:
            return Reply(404, "this witness does not know a log of that origin\n")
        keys = [notes.read_key(key) for key in seen.keys]
        notes.verify_note(request.note, keys)
        refused = _find_growth_refusal(request, seen.checkpoint)
        if refused is not None:
            return refused
        line = load_or_create_witness_signer().cosigned(request.note.text, self._now())
        theirs = [
            s for s in request.note.signatures if any(key.is_stated_signer(s) for key in keys)
        ]
        self._write_seen(seen._replace(note=str(Note(request.note.text, (*theirs, line)))))
        return Reply(200, line.line())

    def _lock_folder(self) -> Any:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return hold_lock(self._folder / "lock")

    def _write_seen(self, seen: WitnessedLog) -> None:
        text = json.dumps(seen._asdict(), indent=1, ensure_ascii=False)
        write_whole(self._seen_path(seen.origin), text.encode() + b"\n")

    def _seen_path(self, origin: str) -> Path:
        return self._folder / f"{sha256(origin.encode()).hexdigest()}.json"


def _find_growth_refusal(request: _CosignRequest, known: Checkpoint | None) -> Reply | None:
    """Return the refusal if a new checkpoint does not extend the last one, otherwise None."""
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


def _read_witnessed_log(path: Path) -> WitnessedLog:
    kept = json.loads(path.read_text("utf-8"))
    return WitnessedLog(str(kept["origin"]), tuple(map(str, kept["keys"])), kept["note"])


def _read_request(body: bytes) -> _CosignRequest:
    head, blank, rest = body.partition(b"\n\n")
    if not blank:
        raise UnreadableNote(
            "a request to a witness must contain an old size, a proof, an empty line and a "
            "checkpoint, but this request contains no empty line"
        )
    first, *proof = head.decode("utf-8", "replace").split("\n")
    old = _OLD.fullmatch(first)
    if old is None or len(proof) > _MOST_PROOF:
        raise UnreadableNote(
            f"a request to a witness must start with 'old SIZE' and at most {_MOST_PROOF} lines "
            f"of a proof, but this request starts with {first!r:.60} and {len(proof)} lines"
        )
    note = read_note(rest)
    return _CosignRequest(
        int(old[1]), tuple(map(notes.decode_base64, proof)), note, read_checkpoint(note)
    )


_SECONDS, _MOST_BYTES = 30, 1_000_000
_DONE, _NOT_FOUND, _CONFLICT = 200, 404, 409


def request_of(
    store: EventStore, stream: str, checkpoint: Checkpoint, note: Note, old: int
) -> bytes:
    """Return the body of a request to a witness that knows the first ``old`` events."""
    ranges = consistency_ranges(old, checkpoint.size) if 0 < old <= checkpoint.size else []
    found = (
        compute_node_hashes(iterate_leaves(store, stream, checkpoint.size), ranges)
        if ranges
        else {}
    )
    proof = "".join(f"{b64encode(found[place]).decode()}\n" for place in ranges)
    return f"old {old}\n{proof}\n{note}".encode()


def request_cosignature(
    store: EventStore,
    stream: str,
    checkpoint: Checkpoint,
    note: Note,
    *,
    url: str,
    key: VerifierKey,
) -> Note:
    """Request the signature of a witness, and return the note with this signature.

    Raises `NotWitnessed` if the witness cannot be reached or refuses.
    """
    reply = _send_request(url, "add-checkpoint", request_of(store, stream, checkpoint, note, 0))
    if reply.status == _CONFLICT:
        said = reply.body.strip()
        if not said.isdecimal() or len(said) > 19:
            text = (
                f"{url} has another checkpoint of this log: it expects the old size "
                f"{reply.body!r:.80}"
            )
            raise NotWitnessed(text, url=url)
        old = int(said)
        if old > checkpoint.size:
            raise NotWitnessed(
                f"the witness {url} has already seen {old} events of this log, but the log has "
                f"only {checkpoint.size} events. Either events were removed from the log, or an "
                "old copy was restored",
                url=url,
                seen=old,
            )
        reply = _send_request(
            url, "add-checkpoint", request_of(store, stream, checkpoint, note, old)
        )
    if reply.status != _DONE:
        raise NotWitnessed(
            f"{url} did not cosign the checkpoint ({reply.status}): {reply.body.strip():.300}",
            url=url,
            status=reply.status,
        )
    theirs = tuple(one for one in notes.read_signatures(reply.body) if key.is_stated_signer(one))
    notes.verify_note(Note(note.text, theirs), [key])
    return Note(note.text, (*note.signatures, *theirs))


def last_seen(url: str, origin: str) -> KeptNote:
    """Return the checkpoint that a witness signed last.

    Raises `NotWitnessed` if the witness cannot be reached.
    """
    reply = _send_request(url, f"{sha256(origin.encode()).hexdigest()}/checkpoint")
    if reply.status == _NOT_FOUND:
        raise NotWitnessed(
            f"the witness {url} has never cosigned a log with the origin {origin}. Either this "
            "log was never sent to the witness, or this log replaced another log",
            url=url,
            origin=origin,
        )
    if reply.status != _DONE:
        raise NotWitnessed(
            (
                f"the witness {url} responded with the HTTP status {reply.status}: "
                f"{reply.body.strip():.300}"
            ),
            url=url,
        )
    return KeptNote(f"the witness {url}", reply.body.encode())


def _send_request(url: str, path: str, body: bytes | None = None) -> Reply:
    """Send a GET request, or a POST request if there is a body, and return the reply.

    Raises `NotWitnessed` if the witness cannot be reached.
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidOption(
            "the address of a witness must start with http:// or https://, but the given address "
            f"is {url!r:.80}"
        )
    request = urllib.request.Request(f"{url.rstrip('/')}/{path}", data=body)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
            return Reply(reply.status, reply.read(_MOST_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read(_MOST_BYTES).decode("utf-8", "replace"))
    except (urllib.error.URLError, OSError) as error:
        raise NotWitnessed(f"{request.full_url}: the witness cannot be reached: {error}") from error


def read_public_keys(texts: Sequence[str]) -> list[VerifierKey]:
    """Return the public keys in the strings, or in the files that the strings name."""
    keys: list[VerifierKey] = []
    for text in texts:
        try:
            keys.append(notes.read_key(text if "+" in text else Path(text).read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(
                f"the value {text!r:.80} is neither a public key in the form NAME+ID+BASE64 nor a "
                "readable file with such a key"
            ) from error
    return keys
