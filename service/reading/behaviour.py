"""Is the log of a workflow one that the protocol allows? Asked of a log that is sound otherwise."""

from __future__ import annotations

from eventstore.verification import Finding
from lifecycle.protocol.behaviour import first_breach
from service.reading.log import WorkflowLog


def check_behaviour(log: WorkflowLog) -> list[Finding]:
    """Return the first event of a workflow that cannot be, none where all can."""
    found = first_breach((event.body, event.hash) for event in log.store.read(log.stream))
    if found is None:
        return []
    text = f"it breaks a promise ({found.promise}): {found.message}"
    return [Finding(log.stream, found.version, None, "protocol", text)]
