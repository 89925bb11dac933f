"""Restore the results of an attempt that are in its scratch copy, with the markers of its jobs."""

from __future__ import annotations

import shutil
from errno import EXDEV
from pathlib import Path

from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import query_machine
from reconciler.records import backward_files, traces
from service.root.atomic_files import system_clock, utc_text, write_whole


def restore_results(attempt: AttemptPaths) -> None:
    """Move the results of the attempt's jobs into place, and write its completion markers.

    This replaces the monitor in two cases: the jobs have ended but the monitors fail, or the root
    was moved, so that the submission names a folder that no longer exists. Safe to run again after
    an interruption. Raises OSError, or MachineUnreachable for jobs on another machine.
    """
    own = genuine.read_attempt_submission(attempt) or {}
    base = attempt.root / str(own.get("work_base", "."))
    if machine.load_execution_host(attempt).is_far:
        query_machine.download_results_without_monitor(attempt, base)
    for copy in traces.scratch_copies(attempt):
        for pattern in backward_files.attempt_backward_patterns(attempt):
            for found in copy.glob(pattern):
                _move_file(found, base / found.relative_to(copy))
    bound = f"0\n{attempt.tag} {utc_text(system_clock())}\n".encode()
    write_whole(attempt.exit_code_record, bound)
    write_whole(attempt.exit_code_marker, b"0\n")
    write_whole(attempt.done_marker, bound)


def _move_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        return
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        # A copy between file systems may be interrupted. The temporary name ensures that an
        # incomplete file never has the final name.
        partial = target.with_name(f".{target.name}.part")
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial)
        shutil.move(source, partial)
        partial.replace(target)
