"""The part of the log that the files may not show yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.files import state_document
from projections.files.progress_log import LogPiece, piece
from service.reading.log import WorkflowLog


@dataclass(slots=True)
class Trail:
    """What came after a version: the pieces of ``progress.log``, what was already detected.

    ``state`` is the newest, None where there is no workflow. ``detected`` holds, for each file,
    the digests of the foreign versions that were recorded, None for a missing one.
    """

    pieces: list[LogPiece] = field(default_factory=list)
    detected: dict[str, list[str | None]] = field(default_factory=dict)
    state: Workflow | None = None

    def add(self, event: RecordedEvent, state: Workflow, shown: int) -> None:
        """Take in an event; the lines up to version ``shown`` are in the file already."""
        part = piece(event, state) if event.version > shown else None
        if part is not None:
            self.pieces.append(part)
        if event.type == "drift.detected":
            self.detected.setdefault(event.data["file"], []).append(event.data["found_sha256"])
        self.state = state


def trail(log: WorkflowLog, after: int, start: Workflow | None, shown: int) -> Trail:
    """Return what came after version ``after``; ``start``: the state there, where it is known.

    The state is the one that the pieces lead to. Asked for once they are read, it could be a newer
    one, as others append meanwhile, and a file that lacks their lines would count as showing them.
    """
    if start is None and after:
        start = log.state(after)
    found = Trail(state=start)
    for event, state in log.steps(after, start):
        found.add(event, state, shown)
    found.pieces.sort(key=_place)
    return found


def was_written(log: WorkflowLog, after: int, found: bytes) -> bool:
    """Whether ``workflow-state.json`` shows a version after ``after``, if not yet remembered so.

    It is written before that is noted: a crash may have come in between, or this look.
    """
    return any(
        state.updated[:19].encode() in found and state_document.render(state) == found
        for _, state in log.steps(after)
    )


def whole(steps: Iterable[tuple[RecordedEvent, Workflow]]) -> Trail:
    """Return the whole log's trail."""
    found = Trail()
    for event, state in steps:
        found.add(event, state, 0)
    found.pieces.sort(key=_place)
    return found


def _place(part: LogPiece) -> tuple[int, int, int]:
    return part.place
