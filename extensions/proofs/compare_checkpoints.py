"""Compare checkpoints (signed statements about a log) with the log, and check proofs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from eventstore.merkle_tree import EMPTY, Frontier
from eventstore.store import EventStore
from eventstore.verification import Finding
from extensions.proofs import checkpoint as checkpoints
from extensions.proofs import signed_note as notes
from extensions.proofs.checkpoint import Checkpoint, KeptNote, is_of_stream, read_checkpoint
from extensions.proofs.errors import CheckpointDenied, UnreadableNote, UnverifiedNote
from extensions.proofs.signed_note import VerifierKey
from service.root.root import Root


class _Found(NamedTuple):
    """A checkpoint, the place where it was found, and a doubt about its signature.

    ``doubt`` is None if a known key signed the checkpoint.
    """

    place: str
    checkpoint: Checkpoint
    doubt: str | None


class JudgedNotes(NamedTuple):
    """The result of comparing checkpoints with a log.

    ``agree`` is the number of matching checkpoints. ``findings`` contains the first contradiction,
    if any. ``passed_over`` lists the checkpoints that were skipped, with the reasons. ``others``
    contains the place and the log name of each checkpoint of another stream.
    """

    agree: int
    findings: tuple[Finding, ...]
    passed_over: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()


def iterate_folder_checkpoints(root: Root, origin: str) -> Iterator[KeptNote]:
    """Yield all checkpoints in the folder, and the last one that this user signed.

    The folder may contain checkpoints in files and in Git tags.
    """
    yield from checkpoints.iterate_note_files(root)
    yield from checkpoints.iterate_checkpoint_tags(root)
    last = checkpoints.last_signed(origin)
    if last is not None:
        yield KeptNote("the last checkpoint signed by this user account", last)


def require_same_log(root: Root, stream: str, origin: str) -> None:
    """Raise `CheckpointDenied` if the folder has checkpoints of another log.

    Another log of the same stream has the same stream name but a different first event.
    """
    for one in _classify_notes(stream, checkpoints.iterate_note_files(root), ())[0]:
        if one.doubt is None and one.checkpoint.origin != origin:
            raise CheckpointDenied(
                f"the file {one.place} contains a checkpoint of the log {one.checkpoint.origin}, "
                f"but this log is {origin}. Nothing was signed. If you created a new log here on "
                f"purpose, move the file {one.place} away.",
                kept=one.checkpoint.origin,
                found=origin,
            )


def compare_notes_with_log(
    store: EventStore, stream: str, found: Iterable[KeptNote], keys: Sequence[VerifierKey] = ()
) -> JudgedNotes:
    """Compare the checkpoints of a stream with its events, and return the result.

    A matching checkpoint is counted if this user or one of ``keys`` signed it. A contradiction to
    the log is reported regardless of the signature, because the removal of a key must not hide
    damage. Checkpoints of other logs are only listed.
    """
    kept, others, passed = _classify_notes(stream, found, keys)
    first = checkpoints.first_hash(store, stream)
    origin = checkpoints.origin_of(stream, first) if first is not None else None
    roots = _compute_roots(store, stream, {one.checkpoint.size for one in kept})
    agree, findings = 0, list[Finding]()
    for one in sorted(kept, key=lambda one: one.checkpoint.size):
        is_same = one.checkpoint.origin == origin
        agrees = roots.get(one.checkpoint.size) == one.checkpoint.root
        if one.doubt is not None and (agrees or not is_same):
            passed.append(f"{one.place}: {one.doubt}")
        elif is_same and agrees:
            agree += 1
        else:
            another = None if is_same else _build_other_log_finding(stream, one, first)
            findings.append(another or _build_denial(store, stream, one, kept, roots))
            break
    return JudgedNotes(agree, tuple(findings), tuple(passed), tuple(others))


def _classify_notes(
    stream: str, every: Iterable[KeptNote], keys: Sequence[VerifierKey]
) -> tuple[list[_Found], list[tuple[str, str]], list[str]]:
    """Return checkpoints of the stream, checkpoints of other streams, and invalid notes."""
    found, others, unreadable = list[_Found](), list[tuple[str, str]](), list[str]()
    for one in every:
        try:
            note = notes.read_note(one.content)
            checkpoint = read_checkpoint(note)
        except UnreadableNote as error:
            unreadable.append(f"{one.place}: {error.message}")
            continue
        if not is_of_stream(checkpoint.origin, stream):
            others.append((one.place, checkpoint.origin))
            continue
        own, doubt = checkpoints.find_log_key(checkpoint.origin), None
        try:
            notes.verify_note(note, [*keys, *([own] if own is not None else [])])
        except UnverifiedNote as error:
            doubt = error.message
        found.append(_Found(one.place, checkpoint, doubt))
    return found, others, unreadable


def _compute_roots(store: EventStore, stream: str, sizes: set[int]) -> dict[int, bytes]:
    roots, tree = {0: EMPTY}, Frontier()
    for leaf in checkpoints.iterate_leaves(store, stream, max(sizes, default=0)) if sizes else ():
        tree.add(leaf)
        if tree.size in sizes:
            roots[tree.size] = tree.root()
    return roots


def _build_other_log_finding(stream: str, one: _Found, first: str | None) -> Finding:
    text = (
        f"{one.place} is a checkpoint of the log {one.checkpoint.origin}, but the first event "
        f"here is another one ({first or 'none'}): the history was rewritten from its first "
        "event, or this is another log"
    )
    return Finding(stream, 1, None, "another_log", text)


def _build_denial(
    store: EventStore, stream: str, one: _Found, kept: Iterable[_Found], roots: dict[int, bytes]
) -> Finding:
    head, size = store.head(stream), one.checkpoint.size
    end = head.version if head is not None else 0
    whose = ", signed by an unknown key" if one.doubt is not None else ""
    begin = f"{one.place} is a checkpoint of {size} events{whose}"
    if end < size:
        text = f"{begin}, but the log has only {end}: the log was cut"
        return Finding(stream, end + 1, None, "cut_tail", text)
    trusted = [known.checkpoint for known in kept if known.doubt is None]
    agreed = max((said.size for said in trusted if roots.get(said.size) == said.root), default=0)
    whole = f"the first {agreed} are unchanged" if agreed else "no earlier checkpoint matches"
    text = (
        f"{begin}, and at least one of these events has changed ({whole}): the log was "
        "forked, or its history was rewritten"
    )
    return Finding(stream, agreed + 1, None, "denied", text)
