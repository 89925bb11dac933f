"""What is so around a workflow: what holds it up, and what somebody changed by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.state.conditions import needed_by
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import GO_ON, Surroundings, is_due
from service.consent.scripts import INIT, others
from service.errors import NotFound
from service.reading.log import WorkflowLog
from service.root.disk import system_clock, utc_text
from service.root.root import Root

if TYPE_CHECKING:
    from projections.words.account import Seen
    from service.root.root import Root


#: While this file lies in the root, the runner begins nothing.
PAUSE = "PAUSE"
#: Held by the loop that drives the workflow, and by the runner that starts it, below ``.wfctl/``.
_LOCKS = ("run.lock", "runner.lock")
#: Where what ``init.sh`` printed is kept, below ``.wfctl/``.
SESSIONS = "sessions"
_STATE, _PREPARED = "workflow-state.json", "submission.json"


def surroundings(
    root: Root, state: Workflow, log: WorkflowLog | None = None, seen: Seen | None = None
) -> Surroundings:
    """Return what is so around a workflow now; reads, and takes no lock.

    ``seen`` is what a look at the files found; without a ``log`` no hand edit is compared.
    """
    due = [stage for stage in state.stages.values() if is_due(state, stage)]
    lacking = ((stage.id, next(_missing(root.path, state, stage), None)) for stage in due)
    silent = [stage.id for stage in due if not stage.parameters.get("command")]
    driven = any(_is_held(root.folder / lock) for lock in _LOCKS)
    was_killed = state.session.is_open and state.session.driven and not driven
    return Surroundings(
        driven=driven,
        drive_again=GO_ON if was_killed else None,
        paused=(root.path / PAUSE).exists(),
        lacking={id_: found for id_, found in lacking if found is not None},
        edited=edits(root, state, log, seen) if log is not None else None,
        scripts=others(root.path, state) if due else (),
        session=_refused(root, state) if due else None,
        prepared=frozenset(id_ for id_ in silent if (root.path / id_ / _PREPARED).is_file()),
        seen=seen,
        now=utc_text(system_clock()),
    )


def _missing(root: Path, state: Workflow, stage: Stage) -> Iterator[str]:
    for path in needed_by(state, stage):
        place = root / path
        if not place.exists():
            yield f"the input {path}, which is missing"
        elif place.is_file() and not place.stat().st_size:
            yield f"the input {path}, which is empty"


def edits(
    root: Root, state: Workflow, log: WorkflowLog, seen: Seen | None = None
) -> dict[str | None, list[str]] | None:
    """Return the fields that were edited by hand, by stage; compared only where a file differs.

    None if a version that was kept is gone, and the log alone tells of it.
    """
    if not state.drifts and (seen is None or _STATE not in seen.edited):
        return {}
    from service.files.foreign_changes import undecided

    found: dict[str | None, list[str]] = {}
    try:
        for edit in undecided(root, log, state):
            found.setdefault(edit.stage, []).append(edit.field)
    except NotFound:
        return None
    return found


def _refused(root: Root, state: Workflow) -> str | None:
    name = f"{state.session.count + 1}.{INIT.removesuffix('.sh')}"
    logs = (root.folder / SESSIONS).glob(f"{name}*.log")
    written, kept = max(((log.stat().st_mtime, log) for log in logs), default=(0.0, None))
    gone_on_in = state.session.is_open and not state.session.driven
    script = root.path / INIT
    if kept is None or gone_on_in or not script.is_file() or script.stat().st_mtime > written:
        return None
    return f"{INIT} that exits 0 (what it printed is in {kept.relative_to(root.path)})"


def _is_held(lock: Path) -> bool:
    try:
        status = lock.stat()
        held = Path("/proc/locks").read_text("ascii")
    except OSError:
        return False
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    return place in held
