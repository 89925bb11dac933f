"""Collect the evidence of an attempt that a person or an imported workflow launched."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from eventstore.regular_files import NotRegular
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.scheduler_queries import parse_query_interval
from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.paths import DONE, EXIT_CODE
from reconciler.evidence.evidence import Evidence, ForeignLaunch
from reconciler.far.manual_jobs import observe_manual_jobs
from reconciler.host import small_files as plain
from reconciler.host import tmux_sessions
from service.root.paths_within_root import OutsideRoot, open_within

#: Maximum number of bytes that are read from a marker file.
_LONGEST = 4_096


def add_foreign_launch(
    evidence: Evidence, state: Workflow, stage: Stage, root: Path, *, fresh: bool
) -> Evidence:
    """Add the observations of a launch that wfctl did not make to the evidence.

    These are the tmux session, the markers and the jobs. Returns the new evidence. With ``fresh``,
    the last answer of the scheduler is not reused.
    """
    evidence = _add_markers(evidence, stage, root)
    on_a_cluster = state.backend_type(stage) == "remote"
    if evidence.session or evidence.root_recorded != evidence.root_now:
        return replace(evidence, foreign_launch=ForeignLaunch(on_a_cluster))
    interval = 0 if fresh else parse_query_interval(state.profile(stage)) or 0
    return _add_manual_jobs(evidence, stage.attempts[-1], root, on_a_cluster, interval)


def _add_manual_jobs(
    evidence: Evidence, recorded: Attempt, root: Path, on_a_cluster: bool, interval: int
) -> Evidence:
    """Return the evidence with the jobs that are found in the folder of DPDispatcher."""
    files = (root / recorded.submission, root / recorded.wrapper)
    manual = observe_manual_jobs(root, *files, recorded.submission_sha256, interval)
    found = manual.observed
    return replace(
        evidence,
        jobs=found.jobs,
        tenants=found.tenants,
        copies=found.copies,
        recovery_file=found.recovery_file,
        backward_missing=found.backward_missing,
        queue=found.queue,
        scheduler=manual.scheduler,
        monitor_alive=manual.is_watched,
        foreign_launch=ForeignLaunch(on_a_cluster, manual.why_unknown),
    )


def foreign_marker_paths(stage: Stage) -> tuple[str, str]:
    """Return the paths of the marker files of an attempt that wfctl did not launch.

    The first path is the completion marker, the second the file with the exit code. Both are
    relative to the root.
    """
    process = stage.running_process or {}
    done = process.get("done_marker") or f"{stage.id}/{DONE}"
    return done, process.get("exit_code_file") or f"{stage.id}/{EXIT_CODE}"


def _add_markers(evidence: Evidence, stage: Stage, root: Path) -> Evidence:
    """Return the evidence with the session and markers of an attempt launched by others."""
    recorded = stage.attempts[-1]
    done, code = foreign_marker_paths(stage)
    session = tmux_sessions.is_live(recorded.session, os.environ) if recorded.session else False
    return replace(
        evidence,
        session=session,
        done_marker=_read_foreign_marker(root, done, recorded),
        exit_marker=_read_foreign_marker(root, code, recorded),
    )


def _read_foreign_marker(root: Path, name: str, recorded: Attempt) -> Marker:
    """Read a marker file, and return its exit code and its change time.

    A marker that is older than the launch of the attempt is returned as a marker of another
    attempt.
    """
    try:
        with os.fdopen(open_within(root, name), "rb") as file:
            text = file.read(_LONGEST + 1).decode(errors="replace")
            mtime = os.fstat(file.fileno()).st_mtime_ns
    except (OutsideRoot, NotRegular, FileNotFoundError, NotADirectoryError):
        return Marker(MarkerState.NONE)
    code, older = plain.parse_number(text.split("\n")[0]), False
    with suppress(ValueError, OverflowError):
        launched = datetime.fromisoformat(recorded.launched_at or recorded.started_at)
        older = mtime < int(launched.timestamp()) * 10**9
    return Marker(MarkerState.OTHER if older else MarkerState.OWN, code, None, mtime)
