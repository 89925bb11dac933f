"""An attempt that somebody else launched, before the workflow was imported.

It has none of the records that an attempt of ours leaves: what is left are the session, and the
markers that its ``running_process`` names. The rows are those of the published convention for
running processes after a lost session, but for one: what may still run on a cluster is not
called failed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from eventstore.private import NotRegular
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt.contract import DONE, EXIT_CODE
from reconciler.attempt.markers import Marker, SeenMarker
from reconciler.evidence.collect import Evidence, Presence
from reconciler.host import processes as plain
from reconciler.host import tmux
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action, Rows, Verdict, first
from service.root.safe_open import OutsideRoot, open_within

#: Bytes of a marker that are looked at.
_LONGEST = 4_096


def evidence_of(evidence: Evidence, stage: Stage, root: Path) -> Evidence:
    """Return the evidence with what a foreign attempt left in place of what ours would."""
    recorded = stage.attempts[-1]
    process = stage.running_process or {}
    done = process.get("done_marker") or f"{stage.id}/{DONE}"
    code = process.get("exit_code_file") or f"{stage.id}/{EXIT_CODE}"
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
        with os.fdopen(open_within(root, name), "rb") as file:
            text = file.read(_LONGEST + 1).decode(errors="replace")
            mtime = os.fstat(file.fileno()).st_mtime_ns
    except (OutsideRoot, NotRegular, FileNotFoundError, NotADirectoryError):
        return Marker(SeenMarker.NONE)
    code = plain.number(text.split("\n")[0])
    launched = _nanoseconds(recorded.launched_at or recorded.started_at)
    older = launched is not None and mtime < launched
    return Marker(SeenMarker.OTHER if older else SeenMarker.OWN, code, None, mtime)


def _nanoseconds(moment: str) -> int | None:
    try:
        return int(datetime.fromisoformat(moment).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What is seen of an attempt that was taken over; ``code`` only where it ended by its own word.

    ``missing`` holds the outputs that are not there, relative to the root.
    """

    evidence: Evidence
    code: int | None
    missing: tuple[str, ...]
    on_a_cluster: bool

    @property
    def has_ended(self) -> bool:
        """Whether both of its markers are there."""
        return self.evidence.done_marker.seen is SeenMarker.OWN and self.code is not None


#: A reason names what it was decided on.
TABLE: Rows[TakenOver] = (
    (
        (20, Name.ELSEWHERE, Action.UNKNOWN),
        lambda seen: seen.evidence.root_recorded != seen.evidence.root_now,
        "it runs in the folder it came from",
    ),
    (
        (21, Name.SESSION_ALIVE, Action.WAIT),
        lambda seen: bool(seen.evidence.session),
        "its tmux session is alive",
    ),
    (
        (23, Name.TASK_FAILED, Action.FAILED),
        lambda seen: seen.has_ended and seen.code != 0,
        "its wrapper ended with exit code {code}",
    ),
    (
        (23, Name.OUTPUT_MISSING, Action.FAILED),
        lambda seen: seen.has_ended and bool(seen.missing),
        "exit code 0, but {missing} is missing",
    ),
    (
        (22, Name.SUCCEEDED, Action.SUCCEEDED),
        lambda seen: seen.has_ended,
        "exit code 0, outputs in place",
    ),
    (
        (25, Name.UNKNOWN, Action.UNKNOWN),
        lambda seen: seen.evidence.session is None,
        "no tmux here to look for its session",
    ),
    (
        (25, Name.UNKNOWN, Action.UNKNOWN),
        lambda seen: seen.on_a_cluster,
        (
            "its session is gone without a marker, and a job may still run on the cluster; look "
            "there, then `wfctl stage compute {stage}` or `wfctl stage fail {stage} --error TEXT`"
        ),
    ),
    (
        (24, Name.STALE, Action.FAILED),
        lambda _: True,
        "stale from before the import: its session is gone and left no marker",
    ),
)


def verdict_of(evidence: Evidence, state: Workflow, stage: Stage) -> Verdict:
    """Return what is so of an attempt that was taken over."""
    seen = TakenOver(
        evidence,
        evidence.exit_marker.code if evidence.exit_marker.seen is SeenMarker.OWN else None,
        tuple(o.path for o in evidence.outputs if o.presence is Presence.MISSING),
        state.backend_type(stage) == "remote",
    )
    found = first(TABLE, seen)
    values = {"stage": stage.id, "code": seen.code, "missing": ", ".join(seen.missing)}
    return replace(found, reason=found.reason.format(**values))
