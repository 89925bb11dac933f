"""Ways to tamper with a proof. Every tampered proof must be refused."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from extensions.proofs.proof import WORDS, Proof
from extensions.proofs.signed_note import Note

#: A word that the forger inserts into proofs. No accepted answer may contain the word.
WORD = "INSERTED"
Change = Callable[["Known"], "bytes | Proof"]


@dataclass(frozen=True)
class Known:
    """Material for a forger: a full proof, a proof of another stage, and all events of the log."""

    proof: Proof
    other: Proof
    events: list[bytes]

    def event(self, type_: str, **data: Any) -> bytes:
        """Return the text of the last event that has the given type and data."""
        for text in reversed(self.events):
            event = json.loads(text)
            if event["type"] == type_ and data.items() <= event["data"].items():
                return text
        raise LookupError(type_)

    def text(self, type_: str) -> bytes:
        """Return the text of the proof that contains a word."""
        return next(one for one in self.proof.texts if type_.encode() in one)


def tampered() -> Iterator[tuple[str, Change]]:
    """Yield the name of each way to tamper, and the function that applies it."""
    yield from _of_the_leaf()
    yield from _of_the_texts()
    yield from _of_the_claim()
    yield from _of_the_place()
    yield from _of_the_form()


def _edited(text: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    value = json.loads(text)
    edit(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _leaf(name: str, edit: Callable[[dict[str, Any]], Any]) -> tuple[str, Change]:
    return f"leaf: {name}", lambda k: replace(k.proof, leaf=_edited(k.proof.leaf, edit))


def _of_the_leaf() -> Iterator[tuple[str, Change]]:
    yield _leaf(
        "another digest of the output", lambda e: e["data"]["outputs"][0].update(sha256="0" * 64)
    )
    yield _leaf("another path of the output", lambda e: e["data"]["outputs"][0].update(path=WORD))
    yield _leaf("an output more", lambda e: e["data"]["outputs"].append({"path": WORD}))
    yield _leaf("another attempt", lambda e: e["data"].update(attempt="att-0009"))
    yield _leaf("another stage", lambda e: e["data"].update(stage="stage-2"))
    yield _leaf("another time", lambda e: e.update(recorded_at="2020-01-01T00:00:00.000000Z"))
    yield _leaf("another actor", lambda e: e["actor"].update(name=WORD))
    yield _leaf("no grounds", lambda e: e["data"].pop("rests_on"))
    yield _leaf("no approvals", lambda e: e["data"]["rests_on"].update(approvals={}))
    yield _leaf("an evidence", lambda e: e["data"].update(evidence=WORD))
    yield "leaf: leads to a definition of one's own", _own_definition
    yield "leaf: leads to an approval of one's own", _own_approval
    yield "leaf: that of the other stage", lambda k: replace(k.proof, leaf=k.other.leaf)
    yield (
        "leaf: the other's, and its way",
        lambda k: replace(k.proof, leaf=k.other.leaf, index=k.other.index, path=k.other.path),
    )


def _own_definition(k: Known) -> Proof:
    definition = _edited(k.text("success_criteria"), lambda d: d["parameters"].update(command=WORD))
    digest = sha256(definition).hexdigest()
    leaf = _edited(k.proof.leaf, lambda e: e["data"]["rests_on"].update(definition=digest))
    return replace(k.proof, leaf=leaf, texts=(definition,))


def _own_approval(k: Known) -> Proof:
    text = _edited(k.text("amendment.approved"), lambda e: e["data"].update(approved_by=WORD))
    approvals = {"amend-1": sha256(text).hexdigest()}
    leaf = _edited(k.proof.leaf, lambda e: e["data"]["rests_on"].update(approvals=approvals))
    return replace(k.proof, leaf=leaf, texts=(text,))


def _instead(name: str, word: str, new: Callable[[Known], bytes]) -> tuple[str, Change]:
    def change(k: Known) -> Proof:
        old, other = k.text(word), new(k)
        return replace(k.proof, texts=tuple(other if one == old else one for one in k.proof.texts))

    return f"texts: {name}", change


def _beside(name: str, new: Callable[[Known], bytes]) -> tuple[str, Change]:
    return f"texts: {name} beside", lambda k: replace(k.proof, texts=(*k.proof.texts, new(k)))


def _of_the_texts() -> Iterator[tuple[str, Change]]:
    def command(k: Known) -> bytes:
        return _edited(k.text("success_criteria"), lambda d: d["parameters"].update(command=WORD))

    def host(k: Known) -> bytes:
        return _edited(k.text("attempt.started"), lambda e: e["data"].update(host=WORD))

    def by(k: Known) -> bytes:
        return _edited(k.text("amendment.approved"), lambda e: e["data"].update(approved_by=WORD))

    def signed(k: Known) -> bytes:
        text = k.text('"id":"amend-1"')
        return _edited(text, lambda s: s["amendment"]["changes"].update(name=WORD))

    def other(type_: str, **data: Any) -> Callable[[Known], bytes]:
        return lambda k: k.event(type_, **data)

    attempt = other("attempt.started", stage="stage-2")
    approval = other("amendment.approved", amendment="amend-2")
    yield _instead("another command", "success_criteria", command)
    yield _instead("another host", "attempt.started", host)
    yield _instead("another approver", "amendment.approved", by)
    yield _instead("another statement", '"id":"amend-1"', signed)
    yield _instead("the attempt of another stage", "attempt.started", attempt)
    yield _instead("the approval of another amendment", "amendment.approved", approval)
    yield _instead("another file", '"nu"', lambda _: b'{"nu": "INSERTED"}\n')
    yield _instead("the first event for the definition", "success_criteria", lambda k: k.events[0])
    yield _beside("another command", command)
    yield _beside("another approver", by)
    yield _beside("another statement", signed)
    yield _beside("the attempt of another stage", attempt)
    yield _beside("the approval of another amendment", approval)
    yield _beside(
        "a proposal that nobody agreed to", other("amendment.proposed", amendment="amend-3")
    )
    yield _beside("the proposal of its amendment", other("amendment.proposed", amendment="amend-1"))
    yield _beside("the first event", lambda k: k.events[0])
    yield _beside("the result of another stage", lambda k: k.other.leaf)
    yield _beside("the leaf itself", lambda k: k.proof.leaf)
    yield _beside("a text twice", lambda k: k.proof.texts[0])
    yield _beside("some letters", lambda _: WORD.encode())
    yield _beside("a later event", lambda k: k.events[-1])


def _of_the_claim() -> Iterator[tuple[str, Change]]:
    def claim(name: str, **said: Any) -> tuple[str, Change]:
        return f"claim: {name}", lambda k: replace(k.proof, claim=said)

    yield claim("another output", output=WORD)
    yield claim("an output of another stage", output="stage-2/out.txt")
    yield claim("a number of a task", task=WORD, metric="m")


def _of_the_place() -> Iterator[tuple[str, Change]]:
    def note(old: int, new: str) -> Change:
        def change(k: Known) -> Proof:
            lines = k.proof.note.text.split("\n")
            lines[old] = new
            return replace(k.proof, note=Note("\n".join(lines), k.proof.note.signatures))

        return change

    yield "place: an index less", lambda k: replace(k.proof, index=k.proof.index - 1)
    yield "place: an index more", lambda k: replace(k.proof, index=k.proof.index + 1)
    yield "place: no way", lambda k: replace(k.proof, path=())
    yield "place: a way too long", lambda k: replace(k.proof, path=(*k.proof.path, b"\0" * 32))
    yield "place: another way", lambda k: replace(k.proof, path=(b"\0" * 32, *k.proof.path[1:]))
    yield "place: another origin", note(0, f"wfctl/workflow-{WORD}/0000000000000000")
    yield "place: another size", note(1, "2")
    yield "place: another root", note(2, b64encode(b"\0" * 32).decode())
    yield (
        "place: an unsigned note",
        lambda k: replace(
            k.proof,
            note=Note(k.proof.note.text, (k.proof.note.signatures[0]._replace(key_id=b"1234"),)),
        ),
    )
    yield (
        "place: another signature",
        lambda k: replace(
            k.proof,
            note=Note(
                k.proof.note.text, (k.proof.note.signatures[0]._replace(signature=b"\0" * 64),)
            ),
        ),
    )


def packed(content: bytes) -> bytes:
    """Compress the content of a proof to the form that a proof file has."""
    packing = zlib.compressobj(zdict=WORDS)
    return packing.compress(content) + packing.flush()


def unpacked(extra: bytes) -> bytes:
    """Decompress the content of a proof."""
    return zlib.decompressobj(zdict=WORDS).decompress(extra)


def with_head(proof: str, edit: Callable[[dict[str, Any]], Any]) -> str:
    """Return a proof after an edit of the JSON object in its first line."""

    def line(head: bytes) -> bytes:
        said = json.loads(head)
        edit(said)
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

    return with_line(proof, line)


def with_line(proof: str, edit: Callable[[bytes], bytes]) -> str:
    """Return the proof after an edit of the first line of its content, as bytes."""
    lines = proof.split("\n")
    head, texts = unpacked(b64decode(lines[1].removeprefix("extra "))).split(b"\n", 1)
    extra = b64encode(packed(b"\n".join((edit(head), texts)))).decode()
    return "\n".join([lines[0], f"extra {extra}", *lines[2:]])


def _of_the_form() -> Iterator[tuple[str, Change]]:
    def extra(edit: Callable[[bytes], bytes]) -> Change:
        def change(k: Known) -> bytes:
            lines = str(k.proof).split("\n")
            content = b64decode(lines[1].removeprefix("extra "))
            return "\n".join(
                [lines[0], f"extra {b64encode(edit(content)).decode()}", *lines[2:]]
            ).encode()

        return change

    def content(edit: Callable[[bytes], bytes]) -> Change:
        return extra(lambda old: packed(edit(unpacked(old))))

    yield "form: letters behind the texts", content(lambda c: c + WORD.encode())
    yield (
        "form: a length that is not valid",
        content(lambda c: c.replace(b'"lengths":[', b'"lengths":[-1,')),
    )
    yield (
        "form: an earlier form",
        content(lambda c: c.replace(b'"wfctl-proof":2', b'"wfctl-proof":1')),
    )
    yield "form: a half of it", extra(lambda c: c[: len(c) // 2])
