"""A proof by the text https://c2sp.org/tlog-proof, and what wfctl puts into its extra data.

The leaf is the event that recorded what is proven. The extra data is JSON behind zlib: that event's
text and those of the events that it rests on, each with its own way to the root of the checkpoint.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.proofs.errors import UnreadableNote
from service.proofs.note import Note, decoded, read_note

FIRST_LINE = "c2sp.org/tlog-proof@v1"
FORM = 1
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_EXTRA = "extra "
_MOST_BYTES = 1_000_000
_MOST_EXTRA = 10_000_000
_MOST_PATH = 63
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Step:
    """An event that a proof shows: its role there, its leaf number, and its way to the root.

    ``text`` is None where it would make the proof too long; then ``leaf`` is its hash alone.
    """

    role: str
    index: int
    text: str | None
    leaf: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What is claimed, the events it rests on (the leaf first), and the checkpoint they are in.

    ``claim`` is a file as the result records it: ``path``, ``sha256``, ``size``; else None.
    """

    what: str
    claim: dict[str, Any] | None
    steps: tuple[Step, ...]
    note: Note

    def __str__(self) -> str:
        extra = {
            "wfctl-proof": FORM,
            "what": self.what,
            "claim": self.claim,
            "events": [_written(step, n > 0) for n, step in enumerate(self.steps)],
        }
        packed = zlib.compress(
            json.dumps(extra, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "surrogateescape"
            ),
            9,
        )
        path = "".join(f"{_base64(one)}\n" for one in self.steps[0].path)
        return (
            f"{FIRST_LINE}\n{_EXTRA}{_base64(packed)}\nindex {self.steps[0].index}\n{path}\n"
            f"{self.note}"
        )


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


def _written(step: Step, with_path: bool) -> dict[str, Any]:
    """Return a step as the extra data has it; the path of the first stands in the proof itself."""
    shown = {"text": step.text} if step.text is not None else {"leaf": _base64(step.leaf)}
    path = {"path": [_base64(one) for one in step.path]} if with_path else {}
    return {"role": step.role, "index": step.index, **shown, **path}


def read_proof(content: bytes) -> Proof:
    """Return the proof that the bytes are, of which nothing is checked yet; or `UnreadableNote`."""
    if len(content) > _MOST_BYTES:
        raise UnreadableNote(f"expected a proof of at most {_MOST_BYTES} bytes")
    head, blank, note = content.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    if first != FIRST_LINE or not blank:
        raise UnreadableNote(f"expected {FIRST_LINE!r} and a checkpoint, found {first!r:.80}")
    if not lines or not lines[0].startswith(_EXTRA):
        raise UnreadableNote("expected a line of extra data, which holds the events, found none")
    index, path = _place(lines[1:])
    extra = _unpacked(decoded(lines[0].removeprefix(_EXTRA)))
    try:
        first, *others = extra["events"]
        steps = (_step(first, path), *(_step(one, _hashes(one["path"])) for one in others))
        claim = extra["claim"]
        if extra["wfctl-proof"] != FORM or not (claim is None or _is_claim(claim)):
            raise ValueError("not the extra data of a proof that wfctl wrote")
        proof = Proof(str(extra["what"]), claim, steps, read_note(note))
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableNote(f"expected the extra data of a proof: {error}") from error
    if proof.steps[0].index != index:
        raise UnreadableNote("the index of the proof is not that of its first event")
    return proof


def _place(lines: Sequence[str]) -> tuple[int, tuple[bytes, ...]]:
    index = _INDEX.fullmatch(lines[0]) if lines else None
    if index is None or len(lines) > _MOST_PATH:
        raise UnreadableNote(f"expected 'index N' and at most {_MOST_PATH} hashes")
    return int(index[1]), _hashes(lines[1:])


def _hashes(texts: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(map(_hash, texts))


def _hash(text: str) -> bytes:
    found = decoded(text)
    if len(found) != _HASH_BYTES:
        raise UnreadableNote(f"expected a hash of {_HASH_BYTES} bytes, found {len(found)}")
    return found


def _unpacked(packed: bytes) -> dict[str, Any]:
    unpacking = zlib.decompressobj()
    try:
        found = json.loads(unpacking.decompress(packed, _MOST_EXTRA))
    except (zlib.error, ValueError) as error:
        raise UnreadableNote(f"expected JSON behind zlib as extra data: {error}") from error
    if unpacking.unconsumed_tail or not isinstance(found, dict):
        raise UnreadableNote("expected an object of JSON as extra data")
    return found


def _step(entry: dict[str, Any], path: tuple[bytes, ...]) -> Step:
    from eventstore.merkle import leaf_hash

    index, text = entry["index"], entry.get("text")
    if type(index) is not int or not isinstance(text, str | None):
        raise ValueError("an event without its number or text")
    content = text.encode("utf-8", "surrogateescape") if text is not None else None
    leaf = leaf_hash(content) if content is not None else _hash(entry["leaf"])
    return Step(str(entry["role"]), index, text, leaf, path)


def _is_claim(claim: Any) -> bool:
    return isinstance(claim, dict) and {"path", "sha256", "size"} <= set(claim)
