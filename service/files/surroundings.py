"""What the next actions must know beside the log: the loop, the pause, and what is on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import Surroundings

#: While this file lies in the root, the runner begins nothing.
PAUSE = "PAUSE"
#: Held by the loop that drives the workflow, below ``.wfctl/``.
LOOP = "run.lock"


def surroundings(root: Path, state: Workflow) -> Surroundings:
    """Return what is so around a workflow now; reads, and takes no lock."""
    begun = (Status.READY, Status.PREPARING)
    ready = [stage for stage in state.stages.values() if stage.status in begun]
    found = {stage.id: lacking for stage in ready if (lacking := next(_missing(root, stage), None))}
    silent = [stage.id for stage in ready if not stage.parameters.get("command")]
    return Surroundings(
        driven=_is_held(root / ".wfctl" / LOOP),
        paused=(root / PAUSE).exists(),
        lacking=found,
        prepared=frozenset(id_ for id_ in silent if (root / id_ / "submission.json").is_file()),
    )


def _missing(root: Path, stage: Stage) -> Iterator[str]:
    for path in stage.inputs:
        place = root / path
        if not place.exists():
            yield f"the input {path}, which is missing"
        elif place.is_file() and not place.stat().st_size:
            yield f"the input {path}, which is empty"


def _is_held(lock: Path) -> bool:
    """Whether somebody holds a lock, as the system tells it; False where it does not tell."""
    try:
        status = lock.stat()
        held = Path("/proc/locks").read_text("ascii")
    except OSError:
        return False
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    return place in held
