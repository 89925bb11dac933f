"""Render the live view of `wfctl status --follow` without a terminal."""

from __future__ import annotations

from pathlib import Path

from cli.frame.follow_state import WorkflowFollower
from cli.frame.workspace import open_workflow_for_reading
from cli.settings import Settings
from wfctl_eventstore.extension import Follower, require_extension

#: Height of the window in lines, larger than any view.
_HEIGHT = 10_000


def live_view(root: Path, columns: int = 100, machine: str | None = None) -> str:
    """Return the live view of a workflow or machine in a window of the given width."""
    follower: Follower
    with open_workflow_for_reading(Settings(root=root)) as workflow:
        if machine is None:
            follower = WorkflowFollower(workflow)
        else:
            machines = require_extension("machines", f"the machine {machine}")
            follower = machines.open_machine_follower(workflow, machine, 60)
        lines = follower.view((columns, _HEIGHT)).lines
    return "\n".join(line.plain for line in lines)
