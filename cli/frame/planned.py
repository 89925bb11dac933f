"""A plan as it is taken, from the document as it was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def with_pins(document: Any, root: Path) -> Any:
    """Return a plan in which ``session_config.pin: scripts`` holds the files as they are now."""
    config = document.get("session_config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or config.get("pin") != "scripts":
        return document
    from lifecycle.payload.models import WorkflowCreated
    from lifecycle.plan.document import create as command_of
    from service.consent.scripts import scripts_of
    from service.writing.workflow_service import planned_state

    def pinning(files: dict[str, str]) -> dict[str, Any]:
        return {**document, "session_config": {**config, "pin": files}}

    now = "1970-01-01T00:00:00.000000Z"
    command: WorkflowCreated = command_of(pinning({}), created=now, root={})
    return pinning(scripts_of(root, planned_state(((command, now),))))
