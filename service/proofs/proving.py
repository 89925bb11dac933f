"""Making a proof: the events it shows, and the way of each to the root of one checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eventstore.merkle import Range, inclusion_ranges, leaf_hash, nodes
from eventstore.store import EventStore
from service.errors import InvalidOption
from service.proofs.checkpoint import Checkpoint, leaves
from service.proofs.errors import CheckpointDenied
from service.proofs.grounds import grounds_of
from service.proofs.note import Note
from service.proofs.proof import Proof, Step
from service.reading.log import WorkflowLog

#: A proof is to be at most so long, to lie beside a figure; the definition is left out above it.
MOST_BYTES = 4096


def prove(
    log: WorkflowLog, what: str, checkpoint: Checkpoint, note: Note, *, whole: bool = False
) -> Proof:
    """Return the proof of ``what`` under a checkpoint of the log.

    Above `MOST_BYTES` it has the definition's digest alone, unless it is to be ``whole``.
    Raises `NotFound`, and `CheckpointDenied` where the log is not the one of the checkpoint.
    """
    grounds = grounds_of(log, what, checkpoint.size)
    steps = _steps(log.store, log.stream, grounds.events, checkpoint)
    proof = Proof(what, grounds.claim, steps, note)
    if whole or len(str(proof).encode("utf-8", "surrogateescape")) <= MOST_BYTES:
        return proof
    shorter = tuple(
        replace(step, text=None) if step.role == "definition" else step for step in steps
    )
    return replace(proof, steps=shorter)


def _steps(
    store: EventStore, stream: str, events: Sequence[tuple[str, int]], checkpoint: Checkpoint
) -> tuple[Step, ...]:
    size, whole = checkpoint.size, (0, checkpoint.size)
    latest = max(version for _, version in events)
    if latest > size:
        raise InvalidOption(
            f"expected a checkpoint of at least {latest} events, found one of {size}", size=size
        )
    paths = {version: inclusion_ranges(version - 1, size) for _, version in events}
    wanted: set[Range] = {whole, *(place for path in paths.values() for place in path)}
    found = nodes(leaves(store, stream, size), wanted)
    if found.get(whole) != checkpoint.root:
        raise CheckpointDenied(
            f"the log is not the one of which the checkpoint of {size} events was signed; "
            "`wfctl fsck` says more",
            size=size,
        )
    return tuple(
        _step(store, stream, role, version, tuple(found[place] for place in paths[version]))
        for role, version in events
    )


def _step(store: EventStore, stream: str, role: str, version: int, path: tuple[bytes, ...]) -> Step:
    raw = next(iter(store.raw(stream, after=version - 1, upto=version)))
    leaf = leaf_hash(raw.text.encode("utf-8", "surrogateescape"))
    return Step(role, version - 1, raw.text, leaf, path)
