"""A plan as it is taken, from the document as it was read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow


def with_pins(document: Any, root: Path) -> Any:
    """Return a plan in which ``session_config.pin: scripts`` holds the files as they are now."""
    config = document.get("session_config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or config.get("pin") != "scripts":
        return document
    from service.consent.scripts import scripts_of

    def pinning(files: dict[str, str]) -> dict[str, Any]:
        return {**document, "session_config": {**config, "pin": files}}

    return pinning(scripts_of(root, _state_of(pinning({}))))


def begun_with(document: Any, root: Path) -> Workflow:
    """Return the workflow that would begin with a plan; raises `InvalidPlan`."""
    return _state_of(with_pins(document, root))


def _state_of(document: Any) -> Workflow:
    from lifecycle.plan.document import create
    from service.writing.workflow_service import planned_state

    now = "1970-01-01T00:00:00.000000Z"
    command: Payload = create(document, created=now, root={})
    return planned_state(((command, now),))
