"""The changes that new events make to the files of a workflow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.files.progress_log import LogPiece, build_piece
from service.reading.log import WorkflowLog


@dataclass(slots=True)
class FileChanges:
    """The changes of the generated files since a version of the log.

    ``pieces`` are the lines of progress.log. ``state`` is the newest state, or None without a
    workflow. ``detected`` contains the digests of the recorded manual edits of each file, with None
    for a deleted file.
    """

    pieces: list[LogPiece] = field(default_factory=list)
    detected: dict[str, list[str | None]] = field(default_factory=dict)
    state: Workflow | None = None


def compute_file_changes(
    log: WorkflowLog, after: int, start: Workflow | None, shown: int
) -> FileChanges:
    """Return the changes of the generated files since version ``after`` of the log.

    ``start`` is the state at this version, if known. The state and the lines in the result belong
    to the same version. A state that is read separately could be newer, and a file without the
    newest lines would then be regarded as complete.
    """
    start = log.state(after) if start is None and after else start
    return collect_file_changes(log.steps(after, start), start, shown)


def collect_file_changes(
    steps: Iterable[tuple[RecordedEvent, Workflow]], start: Workflow | None = None, shown: int = 0
) -> FileChanges:
    """Collect the changes of the generated files from a sequence of events and states.

    progress.log already contains the lines up to version ``shown``.
    """
    found = FileChanges(state=start)
    for event, state in steps:
        part = build_piece(event, state) if event.version > shown else None
        if part is not None:
            found.pieces.append(part)
        if event.type == "drift.detected":
            found.detected.setdefault(event.data["file"], []).append(event.data["found_sha256"])
        found.state = state
    found.pieces.sort(key=lambda part: part.place)
    return found
