"""Results that wait where jobs worked, brought back where DPDispatcher cannot any more."""

from __future__ import annotations

import shutil
from errno import EXDEV
from pathlib import Path

from reconciler.attempt import execution_host as machine
from reconciler.attempt import recorded as genuine
from reconciler.attempt.paths import AttemptPaths
from reconciler.records import traces
from service.root.clock import system_clock, utc_text
from service.root.disk import write_whole


def bring_back(attempt: AttemptPaths) -> None:
    """Put what the attempt's jobs were to bring back into its place, then mark it as collected.

    For an attempt whose jobs are over and whose monitors end without a result, or whose root was
    moved: its submission names a place that is gone. May be done again after it was cut off at any
    point. Raises OSError, and of jobs on another machine MachineUnreachable.
    """
    own = genuine.submission_of(attempt) or {}
    base = attempt.root / str(own.get("work_base", "."))
    if machine.of(attempt).is_far:
        from reconciler.far import results  # few jobs run elsewhere, and fewer need this

        results.bring(attempt, base)
    for copy in traces.scratch_copies(attempt):
        for pattern in traces.backward(attempt):
            for found in copy.glob(pattern):
                _move(found, base / found.relative_to(copy))
    bound = f"0\n{attempt.tag} {utc_text(system_clock())}\n".encode()
    write_whole(attempt.exit_code_record, bound)
    write_whole(attempt.exit_code_marker, b"0\n")
    write_whole(attempt.done_marker, bound)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        return
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        _carry_over(source, target)


def _carry_over(source: Path, target: Path) -> None:
    """Move from another file system: whole beside its place first, since a copy may be cut off."""
    partial = target.with_name(f".{target.name}.part")
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial)
    shutil.move(source, partial)
    partial.replace(target)
