"""Making a proof: the leaf, its way to the root of a checkpoint, and as many texts as fit."""

from __future__ import annotations

from dataclasses import replace

from eventstore.merkle import Range, inclusion_ranges, nodes
from eventstore.store import EventStore
from service.errors import InvalidOption
from service.proofs.checkpoint import Checkpoint, leaves
from service.proofs.errors import CheckpointDenied
from service.proofs.grounds import grounds_of, text_at
from service.proofs.note import Note
from service.proofs.proof import Proof
from service.reading.log import WorkflowLog

#: A proof is to be at most so long, to lie beside a figure. What does not fit is proven by digest.
MOST_BYTES = 2560


def prove(
    log: WorkflowLog, what: str, checkpoint: Checkpoint, note: Note, *, whole: bool = False
) -> Proof:
    """Return the proof of ``what`` under a checkpoint of the log.

    Texts that would make it longer than `MOST_BYTES` are left out, unless it is to be ``whole``.
    Raises `NotFound`, and `CheckpointDenied` where the log is not the one of the checkpoint.
    """
    grounds = grounds_of(log, what, checkpoint.size)
    leaf, path = _leaf(log.store, log.stream, grounds.version, checkpoint)
    proof = Proof(grounds.version - 1, path, leaf, note, claim=grounds.claim)
    for text in grounds.texts:
        longer = replace(proof, texts=(*proof.texts, text))
        fits = len(str(longer).encode("utf-8", "surrogateescape")) <= MOST_BYTES
        if (whole or fits) and text not in proof.texts:
            proof = longer
    return proof


def _leaf(
    store: EventStore, stream: str, version: int, checkpoint: Checkpoint
) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the text of an event, and its way to the root of the checkpoint."""
    size, whole = checkpoint.size, (0, checkpoint.size)
    if version > size:
        raise InvalidOption(
            f"expected a checkpoint of at least {version} events, found one of {size}", size=size
        )
    path = inclusion_ranges(version - 1, size)
    wanted: set[Range] = {whole, *path}
    found = nodes(leaves(store, stream, size), wanted)
    if found.get(whole) != checkpoint.root:
        raise CheckpointDenied(
            f"the log is not the one of which the checkpoint of {size} events was signed; "
            "`wfctl fsck` says more",
            size=size,
        )
    return text_at(store, stream, version), tuple(found[place] for place in path)
