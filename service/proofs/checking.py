"""Checking a proof with nothing but itself and public keys; no log is needed, and none is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.merkle import is_included, leaf_hash
from service.proofs import relation
from service.proofs.checkpoint import Checkpoint, is_of_stream, read_checkpoint
from service.proofs.errors import ProofRejected
from service.proofs.note import LOG, WITNESS, VerifierKey, verified
from service.proofs.proof import Proof


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
    """Raise `ProofRejected` where a file is not the one that the proof claims."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != claim["sha256"]:
        raise ProofRejected(
            f"expected the SHA-256 {claim['sha256']} of {claim['path']}, found "
            f"{digest.hexdigest()} of {path}",
            expected=claim["sha256"],
            found=digest.hexdigest(),
        )
