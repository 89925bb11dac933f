"""Checkpoints held against the log: the first that denies it is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eventstore.merkle import EMPTY, Frontier
from eventstore.store import EventStore
from eventstore.verification import Finding
from service.proofs.checkpoint import (
    Checkpoint,
    first_hash,
    is_of_stream,
    leaves,
    origin_of,
    read_checkpoint,
)
from service.proofs.errors import CheckpointDenied, UnreadableNote, UnverifiedNote
from service.proofs.kept import Kept, kept_files, kept_tags
from service.proofs.keys import known_log_key
from service.proofs.note import VerifierKey, read_note, verified
from service.proofs.signing import last_signed
from service.root.root import Root


@dataclass(frozen=True, slots=True)
class Known:
    """A checkpoint that a known key signed, and where it was found."""

    place: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Judged:
    """How many checkpoints agree, what the first that does not says, and what was passed over."""

    agree: int
    findings: tuple[Finding, ...]
    passed_over: tuple[str, ...]


def found_in(root: Root, origin: str) -> Iterator[Kept]:
    """Yield all checkpoints that a root and this login keep: files, tags, what was signed last."""
    yield from kept_files(root)
    yield from kept_tags(root)
    last = last_signed(origin)
    if last is not None:
        yield Kept("what this login signed last", last)


def require_same_log(root: Root, stream: str, origin: str) -> None:
    """Raise `CheckpointDenied` where the root keeps checkpoints of another log of the stream."""
    known, _ = _known(stream, kept_files(root), ())
    for one in known:
        if one.checkpoint.origin != origin:
            raise CheckpointDenied(
                f"{one.place} is a checkpoint of {one.checkpoint.origin}, found the log {origin}: "
                "nothing is signed. Where a new log was begun here on purpose, move it away.",
                kept=one.checkpoint.origin,
                found=origin,
            )


def judge(
    store: EventStore, stream: str, found: Iterable[Kept], keys: Sequence[VerifierKey] = ()
) -> Judged:
    """Hold the checkpoints of a stream against its events.

    A checkpoint counts that this login signed, or one of ``keys``. What others wrote is told and
    passed over: whoever can write a file could deny every log with it.
    """
    known, passed = _known(stream, found, keys)
    first = first_hash(store, stream)
    origin = origin_of(stream, first) if first is not None else None
    head = store.head(stream)
    roots = _roots(store, stream, {one.checkpoint.size for one in known})
    agree = 0
    for one in sorted(known, key=lambda one: one.checkpoint.size):
        said = one.checkpoint
        if said.origin != origin:
            return Judged(agree, (_of_another(stream, one, first),), passed)
        if roots.get(said.size) != said.root:
            end = head.version if head is not None else 0
            return Judged(agree, (_denied(stream, one, end, _agreed(known, roots)),), passed)
        agree += 1
    return Judged(agree, (), passed)


def _known(
    stream: str, found: Iterable[Kept], keys: Sequence[VerifierKey]
) -> tuple[list[Known], tuple[str, ...]]:
    known, passed = list[Known](), list[str]()
    for kept in found:
        try:
            note = read_note(kept.content)
            checkpoint = read_checkpoint(note)
            if not is_of_stream(checkpoint.origin, stream):
                continue
            own = known_log_key(checkpoint.origin)
            verified(note, [*keys, *([own] if own is not None else [])])
        except (UnreadableNote, UnverifiedNote) as error:
            passed.append(f"{kept.place}: {error.message}")
        else:
            known.append(Known(kept.place, checkpoint))
    return known, tuple(passed)


def _roots(store: EventStore, stream: str, sizes: set[int]) -> dict[int, bytes]:
    """Return the root of the log at each size that it has."""
    roots, tree = {0: EMPTY}, Frontier()
    for leaf in leaves(store, stream, max(sizes, default=0)) if sizes else ():
        tree.add(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    return roots


def _agreed(known: Iterable[Known], roots: dict[int, bytes]) -> int:
    """Return the largest size at which a checkpoint agrees with the log."""
    said = (one.checkpoint for one in known)
    return max((one.size for one in said if roots.get(one.size) == one.root), default=0)


def _of_another(stream: str, one: Known, first: str | None) -> Finding:
    text = (
        f"{one.place} is a checkpoint of the log {one.checkpoint.origin}, whose first event is "
        f"another than the one found, {first or 'none'}: the history was written anew from its "
        "first event, or another log lies in its place"
    )
    return Finding(stream, 1, None, "another_log", text)


def _denied(stream: str, one: Known, end: int, agreed: int) -> Finding:
    size = one.checkpoint.size
    if end < size:
        text = f"{one.place} is a checkpoint of {size} events, found {end}: the log was cut"
        return Finding(stream, end + 1, None, "cut_tail", text)
    whole = f"the first {agreed} are as they were" if agreed else "no smaller one agrees"
    text = (
        f"{one.place} is a checkpoint of {size} events, of which at least one is another now "
        f"({whole}): a fork, or a history written anew"
    )
    return Finding(stream, agreed + 1, None, "denied", text)
