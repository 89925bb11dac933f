"""What a proof shows: derived from its leaf, and from texts that the leaf leads to by digest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from lifecycle.words.document import value_at
from service.consent.signature import fingerprint
from service.proofs.note import ProofRejected

ADOPTED = "results.adopted"
RESULTS = ("stage.completed", ADOPTED)
APPROVED = "amendment.approved"


class Texts:
    """The texts of a proof by their digest, each of which something has to lead to."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._left = {sha256(one).hexdigest(): one for one in texts}
        if len(self._left) < len(texts):
            raise ProofRejected("expected each text once in a proof, found one twice")
        #: What the proof leads to and does not hold.
        self.not_shown: list[str] = []

    def take(self, digest: Any, what: str | None) -> bytes | None:
        """Return the text of a digest, or None and note that ``what`` is not shown."""
        found = self._left.pop(str(digest), None)
        if found is None and what is not None:
            self.not_shown.append(what)
        return found

    def require_all_used(self) -> None:
        """Raise `ProofRejected` if the proof holds a text that nothing in it leads to."""
        for one in self._left.values():
            raise ProofRejected(
                "expected texts that the proof's event leads to by their digest, found another: "
                f"{one.decode(errors='replace')!r:.120}"
            )


def shown(leaf: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Return what an event shows together with the texts that it leads to.

    Raises `ProofRejected` for events of another form than wfctl records.
    """
    try:
        if leaf["type"] in RESULTS:
            return _result(leaf["data"], texts) | _adopted(leaf)
        return {"consent": [_consent(leaf, texts)] if leaf["type"] == APPROVED else []}
    except (AttributeError, KeyError, TypeError) as error:
        raise ProofRejected(f"a text is none that wfctl records: {error!r:.120}") from error


def _result(data: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    found: dict[str, Any] = {"outputs": data.get("outputs"), "command": None, "consent": []}
    rests_on = data.get("rests_on")
    if not isinstance(rests_on, dict):
        texts.not_shown.append("attempt, definition and consent, which this event does not name")
        return found
    if rests_on.get("attempt"):
        attempt = _event(texts.take(rests_on["attempt"], "attempt"), "attempt.started")
        names = ("attempt", "host", "submission_sha256", "inputs", "scripts")
        if attempt is not None:
            found["attempt"] = {name: attempt["data"].get(name) for name in names}
    text = texts.take(rests_on.get("definition"), "definition")
    if text is not None:
        definition = _object(text)
        found["command"] = (definition.get("parameters") or {}).get("command")
        found["success_criteria"] = definition.get("success_criteria")
    found["consent"] = list(_agreed(rests_on.get("approvals") or {}, texts))
    return found


def _adopted(leaf: Mapping[str, Any]) -> dict[str, Any]:
    """Return who took outputs as they are that no job left so; nothing for a completed stage."""
    if leaf["type"] != ADOPTED:
        return {}
    data = leaf["data"]
    policy = (data.get("proof") or {}).get("policy")
    said = {"approved_by": data.get("approved_by"), "policy": policy, "reason": data.get("reason")}
    return {"adopted": said}


def _agreed(approvals: Mapping[str, str], texts: Texts) -> Iterator[dict[str, Any]]:
    for id_, digest in approvals.items():
        event = _event(texts.take(digest, f"approval of {id_}"), APPROVED)
        if event is not None:
            yield _consent(event, texts)


def _consent(event: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
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
    agreed = _object(statement)
    bound = (agreed["head"], agreed["policy"], agreed["amendment"]["id"])
    if bound != (event["prev_hash"], proof["policy"], id_):
        raise ProofRejected(
            f"the statement that the approval of {id_} names is of another head, policy or "
            f"amendment: {bound}",
            amendment=id_,
        )
    said["changes"] = agreed["amendment"].get("changes")
    signed = proof.get("signature")
    if signed is None:
        return said
    key = fingerprint(statement, str(signed))
    if key is None:
        raise ProofRejected(
            f"the signature under {id_} does not hold: it is not of the statement that is shown",
            amendment=id_,
        )
    return {**said, "key": key}


def file_of(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the file that a claim is of: its path, if known, and its ``sha256``.

    Raises `ProofRejected` if the event records no such file.
    """
    data = leaf["data"] if leaf["type"] in RESULTS else {}
    if claim.keys() == {"task", "metric"}:
        record = (data.get("rests_on") or {}).get("tasks")
        if record is not None:
            return {"path": "the record of the tasks", "sha256": record}
    elif "output" in claim and claim.keys() <= {"output", "pointer"}:
        for one in data.get("outputs") or []:
            if one["path"] == claim["output"]:
                return dict(one)
    elif not claim:
        return None
    raise ProofRejected(f"the event does not record what the proof claims: {dict(claim)}")


def value_of(content: bytes, claim: Mapping[str, str]) -> Any:
    """Return the value that a claim names in its file; raises `ProofRejected`."""
    try:
        if "pointer" in claim:
            return value_at(json.loads(content), claim["pointer"])
        rows = map(json.loads, content.splitlines())
        row = next(one for one in rows if one["key"] == claim["task"])
        return row["metrics"][claim["metric"]]
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise ProofRejected(f"the file has no {dict(claim)}: {error!r:.120}") from error


def name_of(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> str:
    """Return what is proven, as `wfctl prove` names it."""
    data, stage = leaf["data"], leaf["data"].get("stage")
    if "metric" in claim:
        return f"{stage}.metrics/{claim['task']}/{claim['metric']}"
    if "output" in claim:
        path = claim["output"].removeprefix(f"{stage}/")
        return (
            f"{stage}.outputs/{path}{'#' if 'pointer' in claim else ''}{claim.get('pointer', '')}"
        )
    if leaf["type"] in RESULTS:
        return str(stage)
    if leaf["type"] in (APPROVED, "amendment.proposed"):
        return str(data.get("amendment"))
    return f"version {leaf['version']}"


def _event(text: bytes | None, type_: str) -> dict[str, Any] | None:
    if text is None:
        return None
    event = _object(text)
    if event.get("type") != type_ or not isinstance(event.get("data"), dict):
        raise ProofRejected(f"expected an event {type_}, found {event.get('type')!r:.80}")
    return event


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise ProofRejected(f"expected JSON in a text of the proof: {error}") from error
    if not isinstance(found, dict):
        raise ProofRejected(
            f"expected an object of JSON in a text of the proof, found {found!r:.80}"
        )
    return found
