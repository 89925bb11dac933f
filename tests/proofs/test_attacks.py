"""The owner of a log cannot change what a witness (a signing observer) has seen unnoticed.

This is true even if the owner has the log file and its signing key.
"""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from eventstore.chain import ZERO, sha256_hex
from eventstore.store import ImportBatch, RawEvent
from extensions.proofs.checkpoint import (
    Checkpoint,
    KeptNote,
    first_hash,
    iterate_leaves,
    load_or_create_log_signer,
    origin_of,
)
from extensions.proofs.compare_checkpoints import JudgedNotes, compare_notes_with_log
from extensions.proofs.signed_note import Note
from extensions.proofs.witness import Witness, request_of
from tests.eventstore.memory import MemoryStore
from tests.eventstore.support import SCHEMA, claim, note, ticking

STREAM = "workflow-melt"
KINDS = ("cut", "fork", "rewritten", "swapped", "old backup", "cut and written on")


def _opened(texts: list[str]) -> MemoryStore:
    """Return a store with the given texts, linked by correct hashes."""
    store, raws, before = MemoryStore(schema=SCHEMA, clock=ticking()), list[RawEvent](), ZERO
    for version, text in enumerate(texts, 1):
        body = orjson.loads(text) | {"prev_hash": before, "version": version}
        linked = orjson.dumps(body)
        before = sha256_hex(linked)
        raws.append(RawEvent(version, linked.decode(), before))
    store.import_batch(ImportBatch(events=raws))
    return store


def _texts(count: int) -> list[str]:
    """Return the events of a new log, as texts."""
    store = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in range(count):
        store.append(STREAM, [note(f"text {number}")], expected=number, claim=claim())
    return [raw.text for raw in store.raw(STREAM)]


def _attacked(texts: list[str], seen: int, kind: str, dice: random.Random) -> list[str]:
    """Return the events after an attack on the part of the log that the witness has seen."""
    at = dice.randrange(seen)
    more = _texts(dice.randrange(1, 12))
    if kind == "cut":
        return texts[: max(at, 1)] if seen > 1 else _texts(1)
    if kind == "rewritten":
        changed = orjson.loads(texts[at])
        changed["data"]["text"] += " as somebody would have it"
        return [*texts[:at], orjson.dumps(changed).decode(), *texts[at + 1 :]]
    if kind == "swapped":
        return _texts(dice.randrange(1, 40))
    if kind == "fork":
        return [*texts[:at], *more, *texts[at + len(more) :]]
    return [*texts[:at], *more]


def _signed(store: MemoryStore) -> tuple[Checkpoint, Note]:
    """Sign a checkpoint of the log without a comparison with earlier checkpoints, like a forger."""
    from eventstore.merkle_tree import Frontier

    tree = Frontier()
    for leaf in iterate_leaves(store, STREAM):
        tree.add(leaf)
    origin = origin_of(STREAM, first_hash(store, STREAM) or "")
    checkpoint = Checkpoint(origin, tree.size, tree.root())
    return checkpoint, Note(
        str(checkpoint), (load_or_create_log_signer(origin).signed(str(checkpoint)),)
    )


def _cosigned(witness: Witness, store: MemoryStore, olds: tuple[int, ...]) -> list[int]:
    """Request a cosignature of the log from the witness, and return the status of each answer.

    ``olds`` are the sizes of the log that the requests claim as already known.
    """
    checkpoint, signed = _signed(store)
    bodies = [request_of(store, STREAM, checkpoint, signed, old) for old in olds]
    return [witness.answer(body).status for body in bodies]


def _held(witness: Witness, origin: str, store: MemoryStore) -> JudgedNotes:
    """Compare the log with the last checkpoint of the witness, and return the findings."""
    seen = witness.seen(origin)
    assert seen is not None
    assert seen.note is not None
    return compare_notes_with_log(store, STREAM, [KeptNote("the witness", seen.note.encode())])


def _one_is_seen(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    texts = _texts(dice.randrange(2, 40))
    seen = dice.randrange(1, len(texts) + 1)
    witness = Witness(lambda: 1_795_000_000 + seed, folder / str(seed))
    honest = _opened(texts[:seen])
    origin = _signed(honest)[0].origin
    witness.watch(load_or_create_log_signer(origin).public)
    assert _cosigned(witness, honest, (0,)) == [200]
    kind = KINDS[seed % len(KINDS)]
    attacked = _opened(_attacked(texts, seen, kind, dice))
    answers = _cosigned(witness, attacked, (0, seen, dice.randrange(1, 50)))
    assert 200 not in answers, (seed, kind, answers)
    findings = _held(witness, origin, attacked).findings
    assert findings, (seed, kind)
    grown = _opened(texts)
    assert _cosigned(witness, grown, (seen,)) == [200], (seed, kind)
    assert _held(witness, origin, grown).findings == ()


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
def test_witness_detects_each_kind_of_attack(tmp_path: Path, kind: int) -> None:
    """The witness refuses the changed log and still cosigns the honest log afterwards."""
    for number in range(15):
        _one_is_seen(tmp_path, kind + number * len(KINDS))


@pytest.mark.long
def test_witness_detects_a_thousand_attacks(tmp_path: Path) -> None:
    """The witness refuses logs that were cut, forked, rewritten, swapped or restored."""
    for seed in range(1000, 2000):
        _one_is_seen(tmp_path, seed)
