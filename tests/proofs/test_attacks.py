"""The owner of a log, its file and its key, cannot change unseen what a witness has seen of it."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from eventstore.chain import ZERO, digest
from eventstore.store import Cargo, Raw
from service.proofs.checkpoint import (
    Checkpoint,
    KeptNote,
    first_hash,
    leaves,
    log_signer,
    origin_of,
)
from service.proofs.judging import JudgedNotes, judge
from service.proofs.note import Note
from service.proofs.witness import Witness, request_of
from tests.eventstore.memory import MemoryStore
from tests.eventstore.support import SCHEMA, claim, note, ticking

STREAM = "workflow-melt"
KINDS = ("cut", "fork", "rewritten", "swapped", "old backup", "cut and written on")


def _opened(texts: list[str]) -> MemoryStore:
    """Return a store that holds texts, each linked to the one before with a right hash."""
    store, raws, before = MemoryStore(schema=SCHEMA, clock=ticking()), list[Raw](), ZERO
    for version, text in enumerate(texts, 1):
        body = orjson.loads(text) | {"prev_hash": before, "version": version}
        linked = orjson.dumps(body)
        before = digest(linked)
        raws.append(Raw(version, linked.decode(), before))
    store.take_in(Cargo(events=raws))
    return store


def _texts(count: int) -> list[str]:
    """Return the texts of a new log."""
    store = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in range(count):
        store.append(STREAM, [note(f"text {number}")], expected=number, claim=claim())
    return [raw.text for raw in store.raw(STREAM)]


def _attacked(texts: list[str], seen: int, kind: str, dice: random.Random) -> list[str]:
    """Return the texts of a log of which something that was seen is another, or gone."""
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
    """Return a checkpoint of a log, signed with the log's own key whatever was signed before."""
    from eventstore.chain import Frontier

    tree = Frontier()
    for leaf in leaves(store, STREAM):
        tree.add(leaf)
    origin = origin_of(STREAM, first_hash(store, STREAM) or "")
    checkpoint = Checkpoint(origin, tree.size, tree.root())
    return checkpoint, Note(str(checkpoint), (log_signer(origin).signed(str(checkpoint)),))


def _cosigned(witness: Witness, store: MemoryStore, olds: tuple[int, ...]) -> list[int]:
    """Return the answers to all that the owner of a log can ask of a witness."""
    checkpoint, signed = _signed(store)
    bodies = [request_of(store, STREAM, checkpoint, signed, old) for old in olds]
    return [witness.answer(body).status for body in bodies]


def _held(witness: Witness, origin: str, store: MemoryStore) -> JudgedNotes:
    """Return what a log looks like to anyone who has the witness's last checkpoint."""
    seen = witness.seen(origin)
    assert seen is not None
    assert seen.note is not None
    return judge(store, STREAM, [KeptNote("the witness", seen.note.encode())])


def _one_is_seen(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    texts = _texts(dice.randrange(2, 40))
    seen = dice.randrange(1, len(texts) + 1)
    witness = Witness(lambda: 1_795_000_000 + seed, folder / str(seed))
    honest = _opened(texts[:seen])
    origin = _signed(honest)[0].origin
    witness.watch(log_signer(origin).public)
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
def test_an_attack_is_refused_by_the_witness_and_named_by_its_checkpoint(
    tmp_path: Path, kind: int
) -> None:
    """A few of each kind; the honest log that grew is cosigned after each."""
    for number in range(15):
        _one_is_seen(tmp_path, kind + number * len(KINDS))


@pytest.mark.long
def test_of_a_thousand_attacks_none_is_unseen(tmp_path: Path) -> None:
    """Cut, fork, rewritten with right hashes, swapped, an old backup that was put back."""
    for seed in range(1000, 2000):
        _one_is_seen(tmp_path, seed)
