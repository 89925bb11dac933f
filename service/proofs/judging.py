"""Checkpoints held against the log: the first that denies it is named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from eventstore.chain import EMPTY, Frontier, is_included, leaf_hash
from eventstore.store import EventStore, Head
from eventstore.verification import Finding
from service.proofs import relation
from service.proofs.checkpoint import (
    Checkpoint,
    KeptNote,
    first_hash,
    is_of_stream,
    kept_files,
    kept_tags,
    leaves,
    origin_of,
    read_checkpoint,
)
from service.proofs.note import (
    LOG,
    WITNESS,
    CheckpointDenied,
    Note,
    ProofRejected,
    UnreadableNote,
    UnverifiedNote,
    VerifierKey,
    read_note,
    verified,
)
from service.proofs.proof import Proof
from service.proofs.signing import known_log_key, last_signed
from service.root.root import Root


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint of the stream, where it was found, and why its signature counts for nothing."""

    place: str
    checkpoint: Checkpoint
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedNotes:
    """How many checkpoints agree, what the first that does not says, and what was passed over.

    ``others`` are those of other streams: the place of each, and its origin.
    """

    agree: int
    findings: tuple[Finding, ...]
    passed_over: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()


def found_in(root: Root, origin: str) -> Iterator[KeptNote]:
    """Yield all checkpoints that a root and this login keep: files, tags, what was signed last."""
    yield from kept_files(root)
    yield from kept_tags(root)
    last = last_signed(origin)
    if last is not None:
        yield KeptNote("what this login signed last", last)


def require_same_log(root: Root, stream: str, origin: str) -> None:
    """Raise `CheckpointDenied` where the root keeps checkpoints of another log of the stream."""
    for one in _sorted_out(stream, kept_files(root), ()).found:
        if one.doubt is None and one.checkpoint.origin != origin:
            raise CheckpointDenied(
                f"{one.place} is a checkpoint of {one.checkpoint.origin}, found the log {origin}: "
                "nothing is signed. Where a new log was begun here on purpose, move it away.",
                kept=one.checkpoint.origin,
                found=origin,
            )


def judge(
    store: EventStore, stream: str, found: Iterable[KeptNote], keys: Sequence[VerifierKey] = ()
) -> JudgedNotes:
    """Hold the checkpoints of a stream against its events.

    A checkpoint agrees where this login signed it, or one of ``keys``. One that denies the very log
    that it names is a finding whoever signed it: to take a key away must not make a log clean. What
    others wrote of other logs is told and denies nothing.
    """
    kept = _sorted_out(stream, found, keys)
    first = first_hash(store, stream)
    origin = origin_of(stream, first) if first is not None else None
    roots = _roots(store, stream, {one.checkpoint.size for one in kept.found})
    agree, passed = 0, kept.unreadable
    for one in sorted(kept.found, key=lambda one: one.checkpoint.size):
        said = one.checkpoint
        if one.doubt is not None and (said.origin != origin or roots.get(said.size) == said.root):
            passed.append(f"{one.place}: {one.doubt}")
        elif said.origin != origin:
            finding = _of_another(stream, one, first)
            return JudgedNotes(agree, (finding,), tuple(passed), tuple(kept.others))
        elif roots.get(said.size) != said.root:
            finding = _denied(stream, one, store.head(stream), _agreed(kept.found, roots))
            return JudgedNotes(agree, (finding,), tuple(passed), tuple(kept.others))
        else:
            agree += 1
    return JudgedNotes(agree, (), tuple(passed), tuple(kept.others))


@dataclass(frozen=True, slots=True)
class _Sorted:
    """What was found: checkpoints of the stream, those of others, and what is no checkpoint."""

    found: list[FoundCheckpoint]
    others: list[tuple[str, str]]
    unreadable: list[str]


def _sorted_out(stream: str, every: Iterable[KeptNote], keys: Sequence[VerifierKey]) -> _Sorted:
    kept = _Sorted([], [], [])
    for one in every:
        try:
            note = read_note(one.content)
            checkpoint = read_checkpoint(note)
        except UnreadableNote as error:
            kept.unreadable.append(f"{one.place}: {error.message}")
            continue
        if is_of_stream(checkpoint.origin, stream):
            kept.found.append(
                FoundCheckpoint(one.place, checkpoint, _doubt(note, checkpoint, keys))
            )
        else:
            kept.others.append((one.place, checkpoint.origin))
    return kept


def _doubt(note: Note, checkpoint: Checkpoint, keys: Sequence[VerifierKey]) -> str | None:
    own = known_log_key(checkpoint.origin)
    try:
        verified(note, [*keys, *([own] if own is not None else [])])
    except UnverifiedNote as error:
        return error.message
    return None


def _roots(store: EventStore, stream: str, sizes: set[int]) -> dict[int, bytes]:
    roots, tree = {0: EMPTY}, Frontier()
    for leaf in leaves(store, stream, max(sizes, default=0)) if sizes else ():
        tree.add(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    return roots


def _agreed(found: Iterable[FoundCheckpoint], roots: dict[int, bytes]) -> int:
    said = (one.checkpoint for one in found if one.doubt is None)
    return max((one.size for one in said if roots.get(one.size) == one.root), default=0)


def _of_another(stream: str, one: FoundCheckpoint, first: str | None) -> Finding:
    text = (
        f"{one.place} is a checkpoint of the log {one.checkpoint.origin}, whose first event is "
        f"another than the one found, {first or 'none'}: the history was written anew from its "
        "first event, or another log lies in its place"
    )
    return Finding(stream, 1, None, "another_log", text)


def _denied(stream: str, one: FoundCheckpoint, head: Head | None, agreed: int) -> Finding:
    size, end = one.checkpoint.size, head.version if head is not None else 0
    whose = ", signed by no key that is known here" if one.doubt is not None else ""
    if end < size:
        text = f"{one.place} is a checkpoint of {size} events{whose}, found {end}: the log was cut"
        return Finding(stream, end + 1, None, "cut_tail", text)
    whole = f"the first {agreed} are as they were" if agreed else "no smaller one agrees"
    text = (
        f"{one.place} is a checkpoint of {size} events{whose}, of which at least one is another "
        f"now ({whole}): a fork, or a history written anew"
    )
    return Finding(stream, agreed + 1, None, "denied", text)


def check(proof: Proof, keys: Sequence[VerifierKey], file: Path | None = None) -> dict[str, Any]:
    """Return what a proof shows; raises `ProofRejected`, `UnverifiedNote`, `UnreadableNote`.

    ``keys`` are public keys of logs and of witnesses: one of the log of the checkpoint must have
    signed it, and every witness among them must have cosigned it. ``file`` must be the one that
    the proof claims.
    """
    checkpoint = read_checkpoint(proof.note)
    logs, witnesses = _signers(proof, keys, checkpoint)
    leaf = leaf_hash(proof.leaf)
    if not is_included(leaf, proof.index, checkpoint.size, proof.path, checkpoint.root):
        raise ProofRejected(
            f"version {proof.index + 1} is not in the log of the checkpoint",
            version=proof.index + 1,
        )
    event = _event(proof, checkpoint.origin)
    texts = relation.Texts(proof.texts)
    found = relation.shown(event, texts)
    claim = relation.file_of(event, proof.claim)
    if claim is not None:
        found |= _of_file(proof, claim, texts, file)
    elif file is not None:
        raise ProofRejected("the proof claims no file")
    texts.require_all_used()
    return {
        "what": relation.name_of(event, proof.claim),
        "claim": claim,
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "signed_by": [str(key) for key in logs],
        "cosigned_by": [key.name for key in witnesses],
        "version": event["version"],
        "type": event["type"],
        "recorded_at": event["recorded_at"],
        "stage": event["data"].get("stage"),
        **found,
        "not_shown": texts.not_shown,
    }


def _signers(
    proof: Proof, keys: Sequence[VerifierKey], checkpoint: Checkpoint
) -> tuple[list[VerifierKey], list[VerifierKey]]:
    """Return the keys of logs and of witnesses that signed; raises as `check` does."""
    signers = verified(proof.note, keys)
    logs = [key for key in signers if key.kind == LOG and key.name == checkpoint.origin]
    witnesses = [key for key in signers if key.kind == WITNESS]
    missing = [key.name for key in keys if key.kind == WITNESS and key not in witnesses]
    if not logs or missing:
        who = ", ".join(missing) or checkpoint.origin
        raise ProofRejected(f"expected a signature of {who}, found none of that key", of=who)
    return logs, witnesses


def _event(proof: Proof, origin: str) -> dict[str, Any]:
    """Return the event that the leaf is, which stands where the proof says."""
    try:
        event = json.loads(proof.leaf.decode("utf-8", "surrogateescape"))
        here = (event["version"], is_of_stream(origin, event["stream"]), type(event["data"]))
        named = isinstance(event["type"], str) and isinstance(event["recorded_at"], str)
    except (ValueError, KeyError, TypeError) as error:
        raise ProofRejected(f"version {proof.index + 1} is no event: {error}") from error
    if here != (proof.index + 1, True, dict) or not named:
        raise ProofRejected(
            f"expected version {proof.index + 1} of the log {origin}, found {here[0]!r:.40} of "
            f"{event['stream']!r:.80}",
            version=proof.index + 1,
        )
    first = sha256(proof.leaf).hexdigest()[:16]
    if proof.index == 0 and not origin.endswith(f"/{first}"):
        raise ProofRejected(f"the first event is not the one that the origin {origin} names")
    return dict(event)


def _of_file(
    proof: Proof, claim: dict[str, Any], texts: relation.Texts, file: Path | None
) -> dict[str, Any]:
    """Return the value that the proof claims in the file, if it claims one and the file is here."""
    found: dict[str, Any] = {}
    if file is not None:
        _require(claim, file)
        found["file"] = str(file)
    if proof.claim.keys() == {"output"}:
        return found
    why = None if file is not None else f"{claim['path']}; `--of FILE` reads the value in it"
    content = texts.take(claim["sha256"], why)
    if file is not None:
        content = file.read_bytes()
    if content is not None:
        found["value"] = relation.value_of(content, proof.claim)
    return found


def _require(claim: dict[str, Any], path: Path) -> None:
    with path.open("rb") as file:
        found = file_digest(file, "sha256").hexdigest()
    if found != claim["sha256"]:
        raise ProofRejected(
            f"expected the SHA-256 {claim['sha256']} of {claim['path']}, found {found} of {path}",
            expected=claim["sha256"],
            found=found,
        )
