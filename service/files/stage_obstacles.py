"""Find obstacles outside the log: missing inputs, manual edits, and a paused runner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.state.conditions import list_needed_files
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.scripts import INIT
from projections.screens.next_actions import GO_ON, Surroundings, is_ready_to_start
from service.consent.scripts import explain_unpinnable_scripts, find_scripts_violating_pins
from service.errors import NotFound
from service.reading.log import WorkflowLog
from service.root.atomic_files import system_clock, utc_text
from service.root.folder_entries import exists, is_file
from service.root.root import Root

if TYPE_CHECKING:
    from projections.words.account import FileCheckResult
    from service.root.root import Root


#: Name of the file that pauses the background runner while it exists in the workflow folder.
PAUSE = "PAUSE"
#: Lock files in ``.wfctl/`` that `wfctl run` and the background runner hold.
_LOCKS = ("run.lock", "runner.lock")
#: Folder in ``.wfctl/`` for the output of ``init.sh``.
SESSIONS = "sessions"
_STATE, _PREPARED = "workflow-state.json", "submission.json"


def read_surroundings(
    root: Root, state: Workflow, log: WorkflowLog | None = None, seen: FileCheckResult | None = None
) -> Surroundings:
    """Return the circumstances outside the log that decide what a workflow can do next.

    Only read, and take no lock. ``seen`` is the result of a check of the files. Without ``log``,
    manual edits are not examined.
    """
    due = [stage for stage in state.stages.values() if is_ready_to_start(state, stage)]
    lacking = (
        (stage.id, next(_find_missing_inputs(root.path, state, stage), None)) for stage in due
    )
    silent = [stage.id for stage in due if not stage.parameters.get("command")]
    driven = any(_is_held(root.folder / lock) for lock in _LOCKS)
    was_killed = state.session.is_open and state.session.driven and not driven
    return Surroundings(
        driven=driven,
        drive_again=GO_ON if was_killed else None,
        paused=(root.path / PAUSE).exists(),
        lacking={id_: found for id_, found in lacking if found is not None},
        edited=find_manual_edits(root, state, log, seen) if log is not None else None,
        scripts=find_scripts_violating_pins(root.path, state) if due else (),
        unpinnable=explain_unpinnable_scripts(root.path, state) if due else (),
        session=_explain_failed_init_script(root, state) if due else None,
        prepared=frozenset(id_ for id_ in silent if is_file(root.path / id_ / _PREPARED)),
        seen=seen,
        now=utc_text(system_clock()),
    )


def _find_missing_inputs(root: Path, state: Workflow, stage: Stage) -> Iterator[str]:
    """Yield a phrase for each input file of a stage that is missing or empty."""
    for path in list_needed_files(state, stage):
        place = root / path
        if not exists(place):
            yield f"the input {path}, which is missing"
        elif is_file(place) and not place.stat().st_size:
            yield f"the input {path}, which is empty"


def find_manual_edits(
    root: Root, state: Workflow, log: WorkflowLog, seen: FileCheckResult | None = None
) -> dict[str | None, list[str]] | None:
    """Return the manually edited fields by stage. The key None means the workflow.

    Return None if the stored copy of an edited file no longer exists.
    """
    if not state.drifts and (seen is None or _STATE not in seen.edited):
        return {}
    from service.files.foreign_changes import find_undecided_edits

    found: dict[str | None, list[str]] = {}
    try:
        for edit in find_undecided_edits(root, log, state):
            found.setdefault(edit.stage, []).append(edit.field)
    except NotFound:
        return None
    return found


def _explain_failed_init_script(root: Root, state: Workflow) -> str | None:
    """Return what is needed to start a session after ``init.sh`` failed.

    Return None if it did not fail, or if the script was changed since then.
    """
    name = f"{state.session.count + 1}.{INIT.removesuffix('.sh')}"
    logs = (root.folder / SESSIONS).glob(f"{name}*.log")
    written, kept = max(((log.stat().st_mtime, log) for log in logs), default=(0.0, None))
    gone_on_in = state.session.is_open and not state.session.driven
    script = root.path / INIT
    if kept is None or gone_on_in or not script.is_file() or script.stat().st_mtime > written:
        return None
    return f"{INIT} that exits 0 (its output is in {kept.relative_to(root.path)})"


def _is_held(lock: Path) -> bool:
    """Return whether a process holds the lock on this file."""
    try:
        status = lock.stat()
        held = Path("/proc/locks").read_text("ascii")
    except OSError:
        return False
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    return place in held
