"""Sign a checkpoint, and compare existing checkpoints with the log.

A checkpoint is a signed statement about the size and hash of a log. Several commands use these
functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.frame.workspace import OpenedWorkflow

if TYPE_CHECKING:
    from extensions.proofs.checkpoint import KeptNote, SignedCheckpoint
    from extensions.proofs.compare_checkpoints import JudgedNotes
    from service.reading.stream_log import StreamLog


def signed_now(
    workflow: OpenedWorkflow, log: StreamLog[Any], upto: int | None = None
) -> SignedCheckpoint:
    """Return a new signed checkpoint of the current log.

    Raises `CheckpointDenied` if the log contradicts an earlier signature, and `UnsoundLog` if the
    log is damaged.
    """
    from extensions.proofs.checkpoint import first_hash, origin_of, sign_checkpoint
    from extensions.proofs.compare_checkpoints import require_same_log
    from service.questions.audit import require_sound

    require_sound(workflow.root, log)
    first = first_hash(log.store, log.stream)
    if first is not None:
        require_same_log(workflow.root, log.stream, origin_of(log.stream, first))
    return sign_checkpoint(log.store, log.stream, workflow.root.path, upto)


def judge_checkpoints(
    workflow: OpenedWorkflow,
    machines: Iterable[str] = (),
    files: Sequence[Path] = (),
    witnesses: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> JudgedNotes:
    """Compare the logs in the folder with every known checkpoint.

    Raises `NotWitnessed` if a witness cannot be reached.
    """
    from extensions.proofs.checkpoint import is_of_stream
    from extensions.proofs.compare_checkpoints import JudgedNotes, compare_notes_with_log
    from extensions.proofs.witness import read_public_keys
    from service.root.root import MACHINE

    streams = [workflow.log.stream] if workflow.config.workflow is not None else []
    known, total = read_public_keys(keys), JudgedNotes(0, (), ())
    streams += [f"{MACHINE}{id_}" for id_ in machines]
    for stream in streams:
        found = list(_iterate_kept_notes(workflow, stream, files, witnesses))
        one = compare_notes_with_log(workflow.log.store, stream, found, known)
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


def _iterate_kept_notes(
    workflow: OpenedWorkflow, stream: str, files: Sequence[Path], witnesses: Sequence[str]
) -> Iterator[KeptNote]:
    """Yield the checkpoints in the given files and the folder, and of the witnesses."""
    from extensions.proofs.checkpoint import KeptNote, first_hash, origin_of
    from extensions.proofs.compare_checkpoints import iterate_folder_checkpoints
    from extensions.proofs.witness import last_seen

    for path in files:
        yield KeptNote(str(path), path.read_bytes())
    origin = origin_of(stream, first_hash(workflow.log.store, stream) or "")
    yield from iterate_folder_checkpoints(workflow.root, origin)
    for url in witnesses:
        yield last_seen(url, origin)
