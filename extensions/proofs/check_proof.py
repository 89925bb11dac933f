"""Check a proof file against its checkpoint and signatures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from eventstore.merkle_tree import is_included, leaf_hash
from extensions.proofs import signed_note as notes
from extensions.proofs.checkpoint import is_of_stream, read_checkpoint
from extensions.proofs.errors import ProofRejected
from extensions.proofs.proof import (
    ADOPTED,
    APPROVED,
    RESULTS,
    Proof,
    find_claimed_number,
    is_read_from_file,
)
from extensions.proofs.signed_note import VerifierKey
from lifecycle.fold.evolve import BY_MANDATE
from lifecycle.words.document import value_at
from service.consent.signature import find_fingerprint


def check_proof(
    proof: Proof, keys: Sequence[VerifierKey], file: Path | None = None
) -> dict[str, Any]:
    """Check a proof and return the facts that it proves.

    ``keys`` are public keys of logs and witnesses. A key of the proven log must have signed the
    checkpoint, and every given witness must have signed it too. ``file`` must be the file that the
    proof names. Raises `ProofRejected`, `UnverifiedNote` or `UnreadableNote`.
    """
    checkpoint = read_checkpoint(proof.note)
    logs, witnesses = _require_signers(proof, keys, checkpoint.origin)
    leaf, version = leaf_hash(proof.leaf), proof.index + 1
    if not is_included(leaf, proof.index, checkpoint.size, proof.path, checkpoint.root):
        raise ProofRejected(
            f"the checkpoint does not include the event with version {version}, so the proof is "
            "not valid",
            version=version,
        )
    event, texts = _read_proven_event(proof, checkpoint.origin), _Texts(proof.texts)
    found = _collect_proven_facts(event, texts)
    claim = _find_claimed_file(event, proof.claim)
    if claim is not None:
        found |= _verify_claimed_value(proof, event, claim, texts, file)
    elif file is not None:
        raise ProofRejected(
            "the option --of cannot be used with this proof, because the proof does not name a file"
        )
    texts.require_all_used()
    known = ("output", "pointer", "task", "metric") if "value" in found else ("output",)
    return {
        "what": _name_of(event, {k: said for k, said in proof.claim.items() if k in known}),
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


def _require_signers(
    proof: Proof, keys: Sequence[VerifierKey], origin: str
) -> tuple[list[VerifierKey], list[VerifierKey]]:
    """Return the keys of the log and of the witnesses that signed the proof.

    Raises `ProofRejected` if the signature of the log or of a given witness is missing.
    """
    signers = notes.verify_note(proof.note, keys)
    logs = [key for key in signers if key.kind == notes.LOG and key.name == origin]
    witnesses = [key for key in signers if key.kind == notes.WITNESS]
    missing = [key.name for key in keys if key.kind == notes.WITNESS and key not in witnesses]
    if not logs or missing:
        who = ", ".join(missing) or origin
        raise ProofRejected(f"the proof has no signature of {who}", of=who)
    return logs, witnesses


def _read_proven_event(proof: Proof, origin: str) -> dict[str, Any]:
    """Return the proven event.

    Raises `ProofRejected` if the event is invalid or at another position in the log.
    """
    version = proof.index + 1
    try:
        event = json.loads(proof.leaf.decode("utf-8", "surrogateescape"))
        here = (event["version"], is_of_stream(origin, event["stream"]), type(event["data"]))
        named = isinstance(event["type"], str) and isinstance(event["recorded_at"], str)
    except (ValueError, KeyError, TypeError) as error:
        raise ProofRejected(f"version {version} is not a valid event: {error}") from error
    if here != (version, True, dict) or not named:
        raise ProofRejected(
            f"the proof must contain version {version} of the log {origin}, but it contains "
            f"version {here[0]!r:.40} of the log {event['stream']!r:.80}",
            version=version,
        )
    if version == 1 and not origin.endswith(f"/{sha256(proof.leaf).hexdigest()[:16]}"):
        raise ProofRejected(f"the first event in the proof does not belong to the log {origin}")
    return dict(event)


def _verify_claimed_value(
    proof: Proof, leaf: Mapping[str, Any], claim: dict[str, Any], texts: _Texts, file: Path | None
) -> dict[str, Any]:
    """Return the claimed value, with its error and unit if the event records them.

    If ``file`` is given, it must be the proven file. The value is left out if it is neither in the
    proof nor in a given file.
    """
    found: dict[str, Any] = {}
    if file is not None:
        with file.open("rb") as opened:
            digest = file_digest(opened, "sha256").hexdigest()
        if digest != claim["sha256"]:
            raise ProofRejected(
                f"the file {file} is not the file that was proven. The proof gives the SHA-256 "
                f"{claim['sha256']} for {claim['path']}, but the file has the SHA-256 {digest}",
                expected=claim["sha256"],
                found=digest,
            )
        found["file"] = str(file)
    if proof.claim.keys() == {"output"}:
        return found
    number = find_claimed_number(leaf, proof.claim)
    is_here = file is not None or number is not None
    why = None if is_here else f"{claim['path']}; `--of FILE` reads its value"
    content = texts.take(claim["sha256"], why)
    if file is not None:
        content = file.read_bytes()
    if number is not None:
        found |= {name: number.get(name) for name in ("value", "error", "unit")}
    if content is not None and (number is None or is_read_from_file(proof.claim)):
        found["value"] = _value_of(content, proof.claim)
    return found


class _Texts:
    """The additional texts in a proof, found by their digests. Each text must be used."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._left = {sha256(one).hexdigest(): one for one in texts}
        if len(self._left) < len(texts):
            raise ProofRejected("a text appears twice in the proof")
        #: Descriptions of things that the proof refers to but does not contain.
        self.not_shown: list[str] = []

    def take(self, digest: Any, what: str | None) -> bytes | None:
        """Return the text with a digest, or None if the proof does not contain it.

        A missing text is added to the list ``not_shown``, with the description ``what``.
        """
        found = self._left.pop(str(digest), None)
        if found is None and what is not None:
            self.not_shown.append(what)
        return found

    def event(self, digest: Any, what: str, type_: str) -> dict[str, Any] | None:
        """Return the event in the text with a digest, or None if the text is missing.

        Raises `ProofRejected` if the text is not an event of this type.
        """
        text = self.take(digest, what)
        if text is None:
            return None
        event = _decode_object(text)
        if event.get("type") != type_ or not isinstance(event.get("data"), dict):
            raise ProofRejected(f"expected an event {type_}, found {event.get('type')!r:.80}")
        return event

    def require_all_used(self) -> None:
        for one in self._left.values():
            raise ProofRejected(
                "the proof contains a text to which the event in the proof does not refer: "
                f"{one.decode(errors='replace')!r:.120}"
            )


def _collect_proven_facts(leaf: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
    """Return the facts that an event proves together with the texts to which it refers.

    Raises `ProofRejected` if the event does not have a form that wfctl records.
    """
    data = leaf["data"]
    try:
        if leaf["type"] not in RESULTS:
            return {"consent": [_verify_consent(leaf, texts)] if leaf["type"] == APPROVED else []}
        found = _describe_result(data, texts)
        if leaf["type"] == ADOPTED:  # No job produced these outputs; a person accepted them.
            policy, by = (data.get("proof") or {}).get("policy"), data.get("approved_by")
            found["adopted"] = {"approved_by": by, "policy": policy, "reason": data.get("reason")}
        return found
    except (AttributeError, KeyError, TypeError) as error:
        raise ProofRejected(
            f"the proof contains a text in a form that wfctl does not record: {error!r:.120}"
        ) from error


def _describe_result(data: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
    found: dict[str, Any] = {"outputs": data.get("outputs"), "command": None, "consent": []}
    rests_on = data.get("rests_on")
    if not isinstance(rests_on, dict):
        texts.not_shown.append("attempt, definition and consent, which this event does not name")
        return found
    if rests_on.get("round") is not None:
        found["round"] = rests_on["round"]
    names = ("attempt", "host", "submission_sha256", "inputs", "scripts")
    if rests_on.get("attempt"):
        attempt = texts.event(rests_on["attempt"], "attempt", "attempt.started")
        if attempt is not None:
            found["attempt"] = {name: attempt["data"].get(name) for name in names}
    text = texts.take(rests_on.get("definition"), "definition")
    if text is not None:
        definition = _decode_object(text)
        found["command"] = (definition.get("parameters") or {}).get("command")
        found["success_criteria"] = definition.get("success_criteria")
    for id_, digest in (rests_on.get("approvals") or {}).items():
        event = texts.event(digest, f"approval of {id_}", APPROVED)
        if event is not None:
            found["consent"].append(_verify_consent(event, texts))
    return found


def _verify_consent(event: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
    data = event["data"]
    proof = data.get("proof") if isinstance(data.get("proof"), dict) else {}
    id_ = data.get("amendment")
    said = {
        "amendment": id_,
        "approved_by": data.get("approved_by"),
        "policy": proof.get("policy"),
        "version": event["version"],
    }
    statement = texts.take(proof.get("statement"), f"statement of {id_}")
    if statement is None:
        return said
    agreed = _decode_object(statement)
    bound = (agreed["head"], agreed["policy"], agreed["amendment"]["id"])
    by_mandate = proof["policy"] == BY_MANDATE  # A mandate is valid under every consent policy.
    if bound != (event["prev_hash"], agreed["policy"] if by_mandate else proof["policy"], id_):
        raise ProofRejected(
            f"the approval of {id_} was given for another state of the log, another policy or "
            f"another amendment: {bound}",
            amendment=id_,
        )
    said["changes"] = agreed["amendment"].get("changes")
    signed = proof.get("signature")
    if signed is None:
        return said
    key = find_fingerprint(statement, str(signed))
    if key is None:
        raise ProofRejected(
            f"the signature of the approval of {id_} does not match the statement in the proof",
            amendment=id_,
        )
    return {**said, "key": key}


def _find_claimed_file(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the path, if known, and the SHA-256 of the file that a claim names.

    Raises `ProofRejected` if the event does not record this file.
    """
    data = leaf["data"] if leaf["type"] in RESULTS else {}
    if claim.keys() == {"task", "metric"}:
        record = (data.get("rests_on") or {}).get("tasks")
        if record is not None:
            return {"path": "the record of the tasks", "sha256": record}
    elif "output" in claim and (
        "metric" not in claim or find_claimed_number(leaf, claim) is not None
    ):
        for one in data.get("outputs") or []:
            if one["path"] == claim["output"]:
                return dict(one)
    elif not claim:
        return None
    raise ProofRejected(
        f"the event in the proof does not record what the proof claims: {dict(claim)}"
    )


def _value_of(content: bytes, claim: Mapping[str, str]) -> Any:
    """Return the claimed value in a file's content, as a JSON value."""
    try:
        if "pointer" in claim:
            value = value_at(json.loads(content), claim["pointer"])
        else:
            rows = map(json.loads, content.splitlines())
            row = next(one for one in rows if one["key"] == claim["task"])
            value = row["metrics"][claim["metric"]]
        json.dumps(value, allow_nan=False)
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError) as error:
        raise ProofRejected(f"the file has no {dict(claim)}: {error!r:.120}") from error
    return value


def _name_of(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> str:
    """Return the name of the proven thing, as the argument of `wfctl prove`."""
    stage = leaf["data"].get("stage")
    if "metric" in claim:
        task = f"{claim['task']}/" if "task" in claim else ""
        return f"{stage}.metrics/{task}{claim['metric']}"
    if "output" in claim:
        pointer = f"#{claim['pointer']}" if "pointer" in claim else ""
        return f"{stage}.outputs/{claim['output'].removeprefix(f'{stage}/')}{pointer}"
    if leaf["type"] in RESULTS:
        return str(stage)
    if leaf["type"] in (APPROVED, "amendment.proposed"):
        return str(leaf["data"].get("amendment"))
    return f"version {leaf['version']}"


def _decode_object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise ProofRejected(f"the proof contains a text that is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ProofRejected(f"the proof contains a text that is not a JSON object: {found!r:.80}")
    return found
