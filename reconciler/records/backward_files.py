"""Check whether the result files of a task were downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import AttemptPaths, JobRecordSuffix
from service.root.folder_entries import exists


def attempt_backward_patterns(attempt: AttemptPaths) -> tuple[str, ...]:
    """Return the patterns of the result files that are downloaded for an attempt."""
    return tuple(backward_patterns(genuine.read_attempt_submission(attempt) or {}))


def find_unmatched_backward_patterns(
    attempt: AttemptPaths, copies: Sequence[Path]
) -> tuple[str, ...]:
    """Return the patterns of result files that match no file.

    The files are searched in the scratch copies and at their final places.
    """
    own = genuine.read_attempt_submission(attempt) or {}
    places = [attempt.root / str(own.get("work_base", ".")), *copies]
    return tuple(
        pattern
        for pattern in backward_patterns(own)
        # `exists` is False for a broken link, but a broken link that a wildcard matches counts as a
        # file here.
        if not any(
            exists(p / pattern) or (has_magic(pattern) and any(_found(p, pattern))) for p in places
        )
    )


def has_complete_results(attempt: AttemptPaths, copies: Sequence[Path], job: str) -> bool:
    """Return whether every result file of a job was written after the job started.

    The change time is compared. A command may preserve an old modification time (`cp -p`, `tar`),
    but it cannot set the change time.
    """
    try:
        start = attempt.job_record_path(job, JobRecordSuffix.STARTED).stat().st_mtime_ns
    except FileNotFoundError:
        return False
    patterns = attempt_backward_patterns(attempt)
    return bool(patterns) and all(
        any(
            exists(one) and one.stat().st_ctime_ns >= start
            for copy in copies
            for one in _found(copy, pattern)
        )
        for pattern in patterns
    )


def _found(place: Path, pattern: str) -> Iterable[Path]:
    return place.glob(pattern) if has_magic(pattern) else [place / pattern]


def backward_patterns(own: Mapping[str, Any]) -> Iterator[str]:
    """Yield the patterns of the result files that a submission downloads."""
    yield from own.get("backward_common_files", [])
    for task in own.get("task_list", []):
        yield from (f"{task['task_work_path']}/{path}" for path in task.get("backward_files", []))
