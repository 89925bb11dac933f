"""A proof by the text https://c2sp.org/tlog-proof, and what wfctl puts into its extra data.

The leaf is the event that recorded what is proven. The extra data, behind zlib with a dictionary,
is a line of JSON and the bytes of texts: the leaf's, and those of what it rests on. Nothing says
what a text is: each is known by its SHA-256, which the leaf, or a text that it leads to, holds.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.proofs.dictionary import WORDS
from service.proofs.errors import UnreadableNote
from service.proofs.note import Note, decoded, read_note

FIRST_LINE = "c2sp.org/tlog-proof@v1"
FORM = 2
#: The names of what a proof may claim beside its leaf: texts all of them.
CLAIMS = frozenset({"output", "pointer", "task", "metric"})
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_EXTRA = "extra "
_MOST_BYTES = 1_000_000
_MOST_EXTRA = 10_000_000
_MOST_PATH = 63
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Proof:
    """The leaf with its way to the root, the texts that it rests on, and the checkpoint.

    ``claim`` names what of the leaf is proven: an ``output`` by its path, and a ``pointer`` into
    it; or a ``metric`` of a ``task``. It is empty if the leaf itself is. ``index`` counts from 0.
    """

    index: int
    path: tuple[bytes, ...]
    leaf: bytes
    note: Note
    texts: tuple[bytes, ...] = ()
    claim: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        head = {"wfctl-proof": FORM, "lengths": [len(one) for one in (self.leaf, *self.texts)]}
        head |= {"claim": self.claim} if self.claim else {}
        said = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
        content = b"".join((said.encode("utf-8", "surrogateescape"), b"\n", self.leaf, *self.texts))
        path = "".join(f"{_base64(one)}\n" for one in self.path)
        extra = _base64(_packed(content))
        return f"{FIRST_LINE}\n{_EXTRA}{extra}\nindex {self.index}\n{path}\n{self.note}"


def _packed(content: bytes) -> bytes:
    packing = zlib.compressobj(9, zdict=WORDS)
    return packing.compress(content) + packing.flush()


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


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
    said, texts = _unpacked(decoded(lines[0].removeprefix(_EXTRA)))
    leaf, *others = texts
    return Proof(index, path, leaf, read_note(note), tuple(others), said.get("claim", {}))


def _place(lines: Sequence[str]) -> tuple[int, tuple[bytes, ...]]:
    index = _INDEX.fullmatch(lines[0]) if lines else None
    if index is None or len(lines) > _MOST_PATH:
        raise UnreadableNote(f"expected 'index N' and at most {_MOST_PATH} hashes")
    return int(index[1]), tuple(map(_hash, lines[1:]))


def _hash(text: str) -> bytes:
    found = decoded(text)
    if len(found) != _HASH_BYTES:
        raise UnreadableNote(f"expected a hash of {_HASH_BYTES} bytes, found {len(found)}")
    return found


def _unpacked(packed: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the line of JSON and the texts; raises `UnreadableNote`."""
    unpacking = zlib.decompressobj(zdict=WORDS)
    try:
        content = unpacking.decompress(packed, _MOST_EXTRA)
    except zlib.error as error:
        raise UnreadableNote(f"expected extra data behind zlib: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise UnreadableNote(f"expected at most {_MOST_EXTRA} bytes behind zlib as extra data")
    line, _, texts = content.partition(b"\n")
    try:
        said = json.loads(line.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise UnreadableNote(f"expected a line of JSON in the extra data: {error}") from error
    if not _is_head(said, len(texts)):
        raise UnreadableNote(
            f"expected the extra data of a proof of form {FORM}, found another. A proof of form 1 "
            "shows texts and not how they belong together; `wfctl prove` makes one of today."
        )
    return said, list(_cut(texts, said["lengths"]))


def _is_head(said: Any, size: int) -> bool:
    """Whether a line of JSON tells of ``size`` bytes of texts, and claims nothing unknown."""
    if not isinstance(said, dict) or not said.keys() <= {"wfctl-proof", "lengths", "claim"}:
        return False
    lengths, claim = said.get("lengths"), said.get("claim", {})
    if said.get("wfctl-proof") != FORM or not isinstance(lengths, list) or not lengths:
        return False
    if not all(type(one) is int and one > 0 for one in lengths) or sum(lengths) != size:
        return False
    return isinstance(claim, dict) and claim.keys() <= CLAIMS and _are_texts(claim.values())


def _are_texts(values: Any) -> bool:
    return all(isinstance(one, str) for one in values)


def _cut(texts: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    begin = 0
    for length in lengths:
        yield texts[begin : begin + length]
        begin += length
