"""What a dry run says of the files: which of those that show the log would be written."""

from __future__ import annotations

from lifecycle.state.workflow import Workflow
from projections.files import progress_log, state_document
from service.writing.stream_writer import Planned


def files_shown(planned: Planned, state: Workflow) -> list[str]:
    """Return their paths, relative to the root; ``state`` is the one after the planned events."""
    if not planned:
        return []
    has_line = any(
        progress_log.shows(payload.type, payload.as_json(), state) for payload, _ in planned
    )
    completes = any(payload.type == "workflow.completed" for payload, _ in planned)
    report = state.report if completes else None
    lines = [progress_log.FILE_NAME] if has_line else []
    return [state_document.FILE_NAME, *lines, *([report] if report is not None else [])]
