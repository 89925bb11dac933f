"""Checkpoints for several commands: one signed now, and all that are found held against the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.frame.workspace import Reading
from service.errors import AlreadyThere

if TYPE_CHECKING:
    from service.proofs.checkpoint import KeptNote, SignedCheckpoint
    from service.proofs.judging import JudgedNotes


def signed_now(workflow: Reading, stream: str, upto: int | None = None) -> SignedCheckpoint:
    """Return a checkpoint of a stream; raises `CheckpointDenied`, `UnsoundLog`."""
    from service.proofs.checkpoint import first_hash, origin_of, sign
    from service.proofs.judging import require_same_log

    first = first_hash(workflow.log.store, stream)
    if first is not None:
        require_same_log(workflow.root, stream, origin_of(stream, first))
    return sign(workflow.log.store, stream, workflow.root.path, upto)


def judged(
    workflow: Reading,
    machines: Iterable[str] = (),
    files: Sequence[Path] = (),
    witnesses: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> JudgedNotes:
    """Hold the logs of the root against every checkpoint; raises `NotWitnessed`."""
    from service.machines.log import PREFIX
    from service.proofs.checkpoint import is_of_stream
    from service.proofs.judging import JudgedNotes, judge
    from service.proofs.witness import keys_named

    streams = [workflow.log.stream] if workflow.config.workflow is not None else []
    known, total = keys_named(keys), JudgedNotes(0, (), ())
    streams += [f"{PREFIX}{id_}" for id_ in machines]
    for stream in streams:
        found = list(_kept(workflow, stream, files, witnesses))
        one = judge(workflow.log.store, stream, found, known)
        others = [
            f"{place}: a checkpoint of another log, {origin}"
            for place, origin in one.others
            if not any(is_of_stream(origin, stream) for stream in streams)
        ]
        passed = dict.fromkeys((*total.passed_over, *one.passed_over, *others))
        total = JudgedNotes(
            total.agree + one.agree, (*total.findings, *one.findings), tuple(passed)
        )
    return total


def _kept(
    workflow: Reading, stream: str, files: Sequence[Path], witnesses: Sequence[str]
) -> Iterator[KeptNote]:
    """Yield the checkpoints in files that are named, kept in the root, and seen by witnesses."""
    from service.proofs.checkpoint import KeptNote, first_hash, origin_of
    from service.proofs.judging import found_in
    from service.proofs.witness import last_seen

    for path in files:
        yield KeptNote(str(path), path.read_bytes())
    origin = origin_of(stream, first_hash(workflow.log.store, stream) or "")
    yield from found_in(workflow.root, origin)
    for url in witnesses:
        yield last_seen(url, origin)


def told_of(found: JudgedNotes) -> dict[str, Any]:
    """Return what is said of checkpoints in an answer."""
    return {"agree": found.agree, "passed_over": list(found.passed_over)}


def lines_of(found: JudgedNotes) -> list[str]:
    """Return what people are told of checkpoints."""
    agree = [f"{found.agree} checkpoints agree"] if found.agree else []
    return [*agree, *(f"passed over: {one}" for one in found.passed_over)]


def write_new(file: Path, content: bytes) -> None:
    """Write a file that is not there yet; raises `AlreadyThere`."""
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except FileExistsError as error:
        raise AlreadyThere(file) from error
