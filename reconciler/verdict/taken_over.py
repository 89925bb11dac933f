"""An attempt that somebody else launched, before the workflow was imported.

It has none of the records that an attempt of ours leaves: what is left are the session, and the
markers that its ``running_process`` names. The rows are those of the published convention for
running processes after a lost session, but for one: what may still run on a cluster is not
called failed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from eventstore.regular import NotRegular, read_regular
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt.markers import Marker, Seen
from reconciler.evidence.collect import Evidence, Presence
from reconciler.host import small_files as plain
from reconciler.host import tmux
from reconciler.verdict.table import Action, Verdict
from service.root.below import OutsideRoot, below

#: Bytes of a marker that are looked at.
_LONGEST = 4_096


def evidence_of(evidence: Evidence, stage: Stage, root: Path) -> Evidence:
    """Return the evidence with what a foreign attempt left in place of what ours would."""
    recorded = stage.attempts[-1]
    process = stage.running_process or {}
    done = process.get("done_marker") or f"{stage.id}/DPDISP_DONE"
    code = process.get("exit_code_file") or f"{stage.id}/DPDISP_EXIT_CODE"
    session = tmux.is_live(recorded.session, os.environ) if recorded.session else False
    return replace(
        evidence,
        session=session,
        done_marker=_marker(root, done, recorded),
        exit_marker=_marker(root, code, recorded),
    )


def _marker(root: Path, name: str, recorded: Recorded) -> Marker:
    """Read a marker that holds a code at most; one from before the launch is another's."""
    try:
        path = below(root, name)
        text = read_regular(path, _LONGEST).decode(errors="replace")
        mtime = path.stat().st_mtime_ns
    except (OutsideRoot, NotRegular, FileNotFoundError, NotADirectoryError):
        return Marker(Seen.NONE)
    code = plain.number(text.split("\n")[0])
    launched = _nanoseconds(recorded.launched_at or recorded.started_at)
    older = launched is not None and mtime < launched
    return Marker(Seen.OTHER if older else Seen.OWN, code, None, mtime)


def _nanoseconds(moment: str) -> int | None:
    try:
        return int(datetime.fromisoformat(moment).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return None


def verdict_of(evidence: Evidence, state: Workflow, stage: Stage) -> Verdict:
    """Return what is so of an attempt that was taken over."""
    code = evidence.exit_marker.code if evidence.exit_marker.seen is Seen.OWN else None
    missing = [o.path for o in evidence.outputs if o.presence is Presence.MISSING]
    if evidence.root_recorded != evidence.root_now:
        return Verdict(20, "ELSEWHERE", Action.UNKNOWN, "it runs in the folder it came from")
    if evidence.session:
        return Verdict(21, "SESSION_ALIVE", Action.WAIT, "its tmux session is alive")
    if evidence.done_marker.seen is Seen.OWN and code is not None:
        return _ended(code, missing)
    if evidence.session is None:
        return Verdict(25, "UNKNOWN", Action.UNKNOWN, "no tmux here to look for its session")
    if state.backend_type(stage) == "remote":
        reason = (
            "its session is gone without a marker, and a job may still run on the cluster; look "
            f"there, then `wfctl stage compute {stage.id}` or `wfctl stage fail {stage.id}`"
        )
        return Verdict(25, "UNKNOWN", Action.UNKNOWN, reason)
    reason = "stale from before the import: its session is gone and left no marker"
    return Verdict(24, "STALE", Action.FAILED, reason)


def _ended(code: int, missing: list[str]) -> Verdict:
    if code != 0:
        return Verdict(23, "TASK_FAILED", Action.FAILED, f"its wrapper ended with exit code {code}")
    if missing:
        reason = f"exit code 0, but {', '.join(missing)} is missing"
        return Verdict(23, "OUTPUT_MISSING", Action.FAILED, reason)
    return Verdict(22, "SUCCEEDED", Action.SUCCEEDED, "exit code 0, outputs in place")
