"""Checkpoints held against the log, of which the first that denies it is named; proofs checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.chain import EMPTY, Frontier, is_included, leaf_hash
from eventstore.store import EventStore
from eventstore.verification import Finding
from lifecycle.fold.evolve import BY_MANDATE
from lifecycle.words.document import value_at
from lifecycle.words.rounds import VARIABLE
from service.consent.signature import fingerprint
from service.proofs import checkpoint as checkpoints
from service.proofs import note as notes
from service.proofs.checkpoint import Checkpoint, KeptNote, is_of_stream, read_checkpoint
from service.proofs.note import ProofRejected, VerifierKey
from service.proofs.proof import ADOPTED, APPROVED, RESULTS, Proof
from service.root.root import Root


class _Found(NamedTuple):
    """A checkpoint of the stream, where it was found, and why its signature is ignored."""

    place: str
    checkpoint: Checkpoint
    doubt: str | None


class JudgedNotes(NamedTuple):
    """How many checkpoints agree, what the first that does not says, and what was passed over.

    ``others`` are those of other streams: the place of each, and its origin.
    """

    agree: int
    findings: tuple[Finding, ...]
    passed_over: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()


def found_in(root: Root, origin: str) -> Iterator[KeptNote]:
    """Yield all checkpoints that a root and this login keep: files, tags, what was signed last."""
    yield from checkpoints.kept_files(root)
    yield from checkpoints.kept_tags(root)
    last = checkpoints.last_signed(origin)
    if last is not None:
        yield KeptNote("what this login signed last", last)


def require_same_log(root: Root, stream: str, origin: str) -> None:
    """Raise `CheckpointDenied` if the root keeps checkpoints of another log of the stream."""
    for one in _sorted_out(stream, checkpoints.kept_files(root), ())[0]:
        if one.doubt is None and one.checkpoint.origin != origin:
            raise notes.CheckpointDenied(
                f"{one.place} is a checkpoint of {one.checkpoint.origin}, found the log {origin}: "
                "nothing is signed. Where a new log was begun here on purpose, move it away.",
                kept=one.checkpoint.origin,
                found=origin,
            )


def judge(
    store: EventStore, stream: str, found: Iterable[KeptNote], keys: Sequence[VerifierKey] = ()
) -> JudgedNotes:
    """Hold the checkpoints of a stream against its events.

    A checkpoint agrees if this login signed it, or one of ``keys``. One that denies the very log
    that it names is a finding, by any signer: to take a key away must not make a log clean. What
    others wrote of other logs is told and denies nothing.
    """
    kept, others, passed = _sorted_out(stream, found, keys)
    first = checkpoints.first_hash(store, stream)
    origin = checkpoints.origin_of(stream, first) if first is not None else None
    roots = _roots(store, stream, {one.checkpoint.size for one in kept})
    agree, findings = 0, list[Finding]()
    for one in sorted(kept, key=lambda one: one.checkpoint.size):
        is_same = one.checkpoint.origin == origin
        agrees = roots.get(one.checkpoint.size) == one.checkpoint.root
        if one.doubt is not None and (agrees or not is_same):
            passed.append(f"{one.place}: {one.doubt}")
        elif is_same and agrees:
            agree += 1
        else:
            another = None if is_same else _of_another(stream, one, first)
            findings.append(another or _denied(store, stream, one, kept, roots))
            break
    return JudgedNotes(agree, tuple(findings), tuple(passed), tuple(others))


def _sorted_out(
    stream: str, every: Iterable[KeptNote], keys: Sequence[VerifierKey]
) -> tuple[list[_Found], list[tuple[str, str]], list[str]]:
    """Return the checkpoints of the stream, those of others, and what is no checkpoint."""
    found, others, unreadable = list[_Found](), list[tuple[str, str]](), list[str]()
    for one in every:
        try:
            note = notes.read_note(one.content)
            checkpoint = read_checkpoint(note)
        except notes.UnreadableNote as error:
            unreadable.append(f"{one.place}: {error.message}")
            continue
        if not is_of_stream(checkpoint.origin, stream):
            others.append((one.place, checkpoint.origin))
            continue
        own, doubt = checkpoints.known_log_key(checkpoint.origin), None
        try:
            notes.verified(note, [*keys, *([own] if own is not None else [])])
        except notes.UnverifiedNote as error:
            doubt = error.message
        found.append(_Found(one.place, checkpoint, doubt))
    return found, others, unreadable


def _roots(store: EventStore, stream: str, sizes: set[int]) -> dict[int, bytes]:
    roots, tree = {0: EMPTY}, Frontier()
    for leaf in checkpoints.leaves(store, stream, max(sizes, default=0)) if sizes else ():
        tree.add(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    return roots


def _of_another(stream: str, one: _Found, first: str | None) -> Finding:
    text = (
        f"{one.place} is a checkpoint of the log {one.checkpoint.origin}, whose first event is "
        f"another than the one found, {first or 'none'}: the history was written anew from its "
        "first event, or another log lies in its place"
    )
    return Finding(stream, 1, None, "another_log", text)


def _denied(
    store: EventStore, stream: str, one: _Found, kept: Iterable[_Found], roots: dict[int, bytes]
) -> Finding:
    head, size = store.head(stream), one.checkpoint.size
    end = head.version if head is not None else 0
    whose = ", signed by no key that is known here" if one.doubt is not None else ""
    begin = f"{one.place} is a checkpoint of {size} events{whose}"
    if end < size:
        text = f"{begin}, found {end}: the log was cut"
        return Finding(stream, end + 1, None, "cut_tail", text)
    trusted = [known.checkpoint for known in kept if known.doubt is None]
    agreed = max((said.size for said in trusted if roots.get(said.size) == said.root), default=0)
    whole = f"the first {agreed} are as they were" if agreed else "no smaller one agrees"
    text = (
        f"{begin}, of which at least one is another now ({whole}): a fork, or a history written "
        "anew"
    )
    return Finding(stream, agreed + 1, None, "denied", text)


def check(proof: Proof, keys: Sequence[VerifierKey], file: Path | None = None) -> dict[str, Any]:
    """Return what a proof shows; raises `ProofRejected`, `UnverifiedNote`, `UnreadableNote`.

    ``keys`` are public keys of logs and of witnesses: one of the log of the checkpoint must have
    signed it, and every witness among them must have cosigned it. ``file`` must be the one that
    the proof claims.
    """
    checkpoint = read_checkpoint(proof.note)
    logs, witnesses = _signers(proof, keys, checkpoint.origin)
    leaf, version = leaf_hash(proof.leaf), proof.index + 1
    if not is_included(leaf, proof.index, checkpoint.size, proof.path, checkpoint.root):
        raise ProofRejected(
            f"version {version} is not in the log of the checkpoint", version=version
        )
    event, texts = _leaf_event(proof, checkpoint.origin), _Texts(proof.texts)
    found = _shown(event, texts)
    number = proof.claim.get("round")
    if number is not None:
        found |= _round_claimed(found, number, texts)
        part = {name: said for name, said in proof.claim.items() if name != "round"}
        proof = replace(proof, claim=part)
    claim = _file_claimed(event, proof.claim)
    if claim is not None:
        found |= _of_file(proof, claim, texts, file)
    elif file is not None:
        raise ProofRejected("the proof claims no file")
    texts.require_all_used()
    return {
        "what": _name_of(event, proof.claim),
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
    proof: Proof, keys: Sequence[VerifierKey], origin: str
) -> tuple[list[VerifierKey], list[VerifierKey]]:
    """Return the keys of logs and of witnesses that signed; raises as `check` does."""
    signers = notes.verified(proof.note, keys)
    logs = [key for key in signers if key.kind == notes.LOG and key.name == origin]
    witnesses = [key for key in signers if key.kind == notes.WITNESS]
    missing = [key.name for key in keys if key.kind == notes.WITNESS and key not in witnesses]
    if not logs or missing:
        who = ", ".join(missing) or origin
        raise ProofRejected(f"expected a signature of {who}, found none of that key", of=who)
    return logs, witnesses


def _leaf_event(proof: Proof, origin: str) -> dict[str, Any]:
    """Return the event that the leaf is, which stands where the proof says."""
    version = proof.index + 1
    try:
        event = json.loads(proof.leaf.decode("utf-8", "surrogateescape"))
        here = (event["version"], is_of_stream(origin, event["stream"]), type(event["data"]))
        named = isinstance(event["type"], str) and isinstance(event["recorded_at"], str)
    except (ValueError, KeyError, TypeError) as error:
        raise ProofRejected(f"version {version} is no event: {error}") from error
    if here != (version, True, dict) or not named:
        raise ProofRejected(
            f"expected version {version} of the log {origin}, found {here[0]!r:.40} of "
            f"{event['stream']!r:.80}",
            version=version,
        )
    if version == 1 and not origin.endswith(f"/{sha256(proof.leaf).hexdigest()[:16]}"):
        raise ProofRejected(f"the first event is not the one that the origin {origin} names")
    return dict(event)


def _of_file(
    proof: Proof, claim: dict[str, Any], texts: _Texts, file: Path | None
) -> dict[str, Any]:
    """Return the value that the proof claims in the file, if it claims one and the file is here."""
    found: dict[str, Any] = {}
    if file is not None:
        with file.open("rb") as opened:
            digest = file_digest(opened, "sha256").hexdigest()
        if digest != claim["sha256"]:
            raise ProofRejected(
                f"expected the SHA-256 {claim['sha256']} of {claim['path']}, found {digest} of "
                f"{file}",
                expected=claim["sha256"],
                found=digest,
            )
        found["file"] = str(file)
    if proof.claim.keys() == {"output"}:
        return found
    why = None if file is not None else f"{claim['path']}; `--of FILE` reads the value in it"
    content = texts.take(claim["sha256"], why)
    if file is not None:
        content = file.read_bytes()
    if content is not None:
        found["value"] = _value_of(content, proof.claim)
    return found


class _Texts:
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

    def event(self, digest: Any, what: str, type_: str) -> dict[str, Any] | None:
        """Return the event of a type that the text of a digest is, None if it is not shown."""
        text = self.take(digest, what)
        if text is None:
            return None
        event = _object(text)
        if event.get("type") != type_ or not isinstance(event.get("data"), dict):
            raise ProofRejected(f"expected an event {type_}, found {event.get('type')!r:.80}")
        return event

    def require_all_used(self) -> None:
        for one in self._left.values():
            raise ProofRejected(
                "expected texts that the proof's event leads to by their digest, found another: "
                f"{one.decode(errors='replace')!r:.120}"
            )


def _shown(leaf: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
    """Return what an event shows together with the texts that it leads to.

    Raises `ProofRejected` for events of another form than wfctl records.
    """
    data = leaf["data"]
    try:
        if leaf["type"] not in RESULTS:
            return {"consent": [_consent(leaf, texts)] if leaf["type"] == APPROVED else []}
        found = _result(data, texts)
        if leaf["type"] == ADOPTED:  # somebody took outputs as they are that no job left so
            policy, by = (data.get("proof") or {}).get("policy"), data.get("approved_by")
            found["adopted"] = {"approved_by": by, "policy": policy, "reason": data.get("reason")}
        return found
    except (AttributeError, KeyError, TypeError) as error:
        raise ProofRejected(f"a text is not one that wfctl records: {error!r:.120}") from error


def _result(data: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
    found: dict[str, Any] = {"outputs": data.get("outputs"), "command": None, "consent": []}
    rests_on = data.get("rests_on")
    if not isinstance(rests_on, dict):
        texts.not_shown.append("attempt, definition and consent, which this event does not name")
        return found
    names = ("attempt", "host", "submission_sha256", "inputs", "scripts")
    if rests_on.get("attempt"):
        attempt = texts.event(rests_on["attempt"], "attempt", "attempt.started")
        if attempt is not None:
            found["attempt"] = {name: attempt["data"].get(name) for name in names}
    text = texts.take(rests_on.get("definition"), "definition")
    if text is not None:
        definition = _object(text)
        found["command"] = (definition.get("parameters") or {}).get("command")
        found["success_criteria"] = definition.get("success_criteria")
    for id_, digest in (rests_on.get("approvals") or {}).items():
        event = texts.event(digest, f"approval of {id_}", APPROVED)
        if event is not None:
            found["consent"].append(_consent(event, texts))
    return found


def _consent(event: Mapping[str, Any], texts: _Texts) -> dict[str, Any]:
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
    by_mandate = proof["policy"] == BY_MANDATE  # under whatever policy it was granted
    if bound != (event["prev_hash"], agreed["policy"] if by_mandate else proof["policy"], id_):
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


def _file_claimed(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> dict[str, Any] | None:
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


def _round_claimed(found: Mapping[str, Any], number: str, texts: _Texts) -> dict[str, Any]:
    """Return the round that a proof claims, if the submission of its attempt is shown."""
    digest = (found.get("attempt") or {}).get("submission_sha256")
    text = texts.take(digest, f"round {number}, which the submission of the attempt says")
    if text is None:
        return {}
    try:
        said = _object(text)["resources"]["envs"][VARIABLE]
    except (KeyError, TypeError) as error:
        raise ProofRejected(f"the submission is of no round: {error!r:.120}") from error
    if said != number:
        raise ProofRejected(f"expected an attempt of round {number}, found one of {said!r:.40}")
    return {"round": number}


def _value_of(content: bytes, claim: Mapping[str, str]) -> Any:
    try:
        if "pointer" in claim:
            return value_at(json.loads(content), claim["pointer"])
        rows = map(json.loads, content.splitlines())
        row = next(one for one in rows if one["key"] == claim["task"])
        return row["metrics"][claim["metric"]]
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise ProofRejected(f"the file has no {dict(claim)}: {error!r:.120}") from error


def _name_of(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> str:
    """Return what is proven, as `wfctl prove` names it."""
    stage = leaf["data"].get("stage")
    if "metric" in claim:
        return f"{stage}.metrics/{claim['task']}/{claim['metric']}"
    if "output" in claim:
        pointer = f"#{claim['pointer']}" if "pointer" in claim else ""
        return f"{stage}.outputs/{claim['output'].removeprefix(f'{stage}/')}{pointer}"
    if leaf["type"] in RESULTS:
        return str(stage)
    if leaf["type"] in (APPROVED, "amendment.proposed"):
        return str(leaf["data"].get("amendment"))
    return f"version {leaf['version']}"


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
