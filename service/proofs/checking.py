"""Checking a proof with nothing but itself and public keys; no log is needed, and none is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.merkle import is_included
from lifecycle.state.workflow import PLAN
from service.proofs.checkpoint import is_of_stream, read_checkpoint
from service.proofs.errors import ProofRejected
from service.proofs.note import LOG, WITNESS, VerifierKey, verified
from service.proofs.proof import Proof, Step

_TYPES = {
    "result": ("stage.completed", "results.adopted"),
    "attempt": ("attempt.started",),
    "proposal": ("amendment.proposed",),
    "consent": ("amendment.approved",),
    "definition": ("workflow.created", "workflow.imported"),
}

Events = list[tuple[str, dict[str, Any]]]
"""Role → the event, of those that are shown."""


def check(proof: Proof, keys: Sequence[VerifierKey]) -> dict[str, Any]:
    """Return what a proof shows; raises `ProofRejected`, `UnverifiedNote`, `UnreadableNote`.

    ``keys`` are public keys of logs and of witnesses: one of the log of the checkpoint must have
    signed it, and every witness among them must have cosigned it.
    """
    checkpoint = read_checkpoint(proof.note)
    signers = verified(proof.note, keys)
    logs = [key for key in signers if key.kind == LOG and key.name == checkpoint.origin]
    witnesses = [key for key in signers if key.kind == WITNESS]
    missing = [key.name for key in keys if key.kind == WITNESS and key not in witnesses]
    if not logs or missing:
        who = ", ".join(missing) or checkpoint.origin
        raise ProofRejected(f"expected a signature of {who}, found none of that key", of=who)
    for step in proof.steps:
        if not is_included(step.leaf, step.index, checkpoint.size, step.path, checkpoint.root):
            raise ProofRejected(
                f"version {step.index + 1} ({step.role}) is not in the log of the checkpoint",
                version=step.index + 1,
            )
    events = [(s.role, _event(s, checkpoint.origin)) for s in proof.steps if s.text is not None]
    _require_connected(proof, events)
    return {
        "what": proof.what,
        "claim": proof.claim,
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "signed_by": [str(key) for key in logs],
        "cosigned_by": [key.name for key in witnesses],
        **_shown(proof, events),
    }


def require_file(proof: Proof, path: Path) -> None:
    """Raise `ProofRejected` where a file is not the one that the proof claims."""
    if proof.claim is None:
        raise ProofRejected(f"the proof is of {proof.what}, and claims no file", what=proof.what)
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != proof.claim["sha256"]:
        raise ProofRejected(
            f"expected the SHA-256 {proof.claim['sha256']} of {proof.claim['path']}, found "
            f"{digest.hexdigest()} of {path}",
            expected=proof.claim["sha256"],
            found=digest.hexdigest(),
        )


def _event(step: Step, origin: str) -> dict[str, Any]:
    """Return the event that a step shows, which stands where the proof says."""
    try:
        event = json.loads(step.text or "")
        here = (event["version"], is_of_stream(origin, event["stream"]), type(event["data"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ProofRejected(f"version {step.index + 1} is no event: {error}") from error
    expected = _TYPES.get(step.role, (event.get("type"),))
    if here != (step.index + 1, True, dict) or event.get("type") not in expected:
        raise ProofRejected(
            f"expected {' or '.join(map(str, expected))} at version {step.index + 1} of the log "
            f"{origin}, found {event.get('type')!r:.80} at {here[0]!r:.40}",
            version=step.index + 1,
        )
    digest = sha256((step.text or "").encode("utf-8", "surrogateescape")).hexdigest()
    if step.index == 0 and not origin.endswith(f"/{digest[:16]}"):
        raise ProofRejected(f"the first event is not the one that the origin {origin} names")
    return dict(event)


def _require_connected(proof: Proof, events: Events) -> None:
    """Raise `ProofRejected` where the events are not of one stage, attempt or amendment."""
    found = {role: event["data"] for role, event in events}
    result, attempt = found.get("result"), found.get("attempt")
    if proof.claim is not None and (result is None or proof.claim not in result.get("outputs", [])):
        raise ProofRejected("the result does not record the file that the proof claims")
    if result is not None and attempt is not None:
        named = result.get("attempt")
        if attempt.get("stage") != result.get("stage") or named not in (None, attempt["attempt"]):
            raise ProofRejected("the attempt that is shown is not the one of the result")
    proposed = {e["data"].get("amendment") for role, e in events if role == "proposal"}
    proposed |= {PLAN for role, e in events if role == "definition" and e["data"].get("proposed")}
    agreed = {e["data"].get("amendment") for role, e in events if role == "consent"}
    if agreed - proposed:
        raise ProofRejected("an approval is shown without the amendment that it is of")


def _shown(proof: Proof, events: Events) -> dict[str, Any]:
    found = dict(events)
    first = events[0][1]
    shown: dict[str, Any] = {
        "version": first["version"],
        "type": first["type"],
        "recorded_at": first["recorded_at"],
        "stage": first["data"].get("stage"),
        "consent": [_consent(e) for role, e in events if role == "consent"],
        "not_shown": [step.role for step in proof.steps if step.text is None],
    }
    if "result" in found:
        shown["outputs"] = first["data"].get("outputs")
        shown["command"] = _command(str(shown["stage"]), events)
    if "attempt" in found:
        data = found["attempt"]["data"]
        names = ("attempt", "host", "submission_sha256", "inputs", "scripts")
        shown["attempt"] = {name: data.get(name) for name in names}
    return shown


def _consent(event: dict[str, Any]) -> dict[str, Any]:
    data = event["data"]
    proof = data.get("proof")
    policy = proof.get("policy") if isinstance(proof, dict) else None
    who = {"approved_by": data.get("approved_by"), "policy": policy}
    return {"amendment": data.get("amendment"), **who, "version": event["version"]}


def _command(stage: str, events: Events) -> str | None:
    """Return the stage's command as defined and then amended; None where it is not shown."""
    command = None
    for role, event in sorted(events, key=lambda one: one[1]["version"]):
        data = event["data"]
        if role == "definition":
            stages = (data.get("document") or {}).get("stages", [])
            command = _of_stage(next((s for s in stages if s.get("id") == stage), None), command)
        elif role == "proposal":
            changed = (data.get("changes") or {}).get("parameters", {})
            command = changed.get("command", {}).get("new", command)
            command = _of_stage(data.get("insert"), command)
    return command


def _of_stage(stage: dict[str, Any] | None, otherwise: str | None) -> str | None:
    return (stage.get("parameters") or {}).get("command", otherwise) if stage else otherwise
