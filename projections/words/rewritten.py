"""Results that were written after the job that is said to have left them had ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lifecycle.state.workflow import Attempt, Stage
from lifecycle.sweeps.definition import is_sweep, table_of

#: Seconds after the end of a job in which its files may still get their times: clocks differ.
_MARGIN = 2.0


def rewritten(stage: Stage, times: Mapping[str, float]) -> Iterator[str]:
    """Yield what of a completed stage's results is not what its job left, as far as is known.

    ``times`` are those of the files of which the log holds none, in seconds since the epoch.
    """
    attempt = stage.source
    if attempt is None:
        return
    for one in stage.attempts:
        for late in (one.tasks or {}).get("late", []):
            yield f"{late['path']} was written {late['seconds']} s after its task ended"
    own = table_of(stage.id) if is_sweep(stage.parameters) else ()  # written by wfctl, later
    left = _left(attempt)
    for result in attempt.results:
        if result["path"] not in own:
            yield from _of_result(attempt, result, left, times)


def _of_result(
    attempt: Attempt,
    result: dict[str, Any],
    left: Mapping[str, dict[str, Any]],
    times: Mapping[str, float],
) -> Iterator[str]:
    path, end = result["path"], _end(attempt)
    there = left.get(path, {})
    if there.get("sha256") not in (None, result["sha256"]):
        yield f"{path} is not what {attempt.id} left: it was rewritten after its job ended"
        return
    written = there["mtime"] / 1e9 if there.get("mtime") else 0.0
    if there.get("sha256") is None:
        written = max(written, times.get(path, 0.0))
    if end is not None and written > end + _MARGIN:
        yield f"{path} was written {written - end:.0f} s after its job ended"


def edited_journals(stage: Stage) -> Iterator[str]:
    """Yield which files, by which the tasks of a sweep tell their ends, others have changed."""
    for attempt in stage.attempts:
        for path in (attempt.tasks or {}).get("edited", []):
            yield f"{path} was edited; by it tasks of {attempt.id} tell how they ended"


def without_record(stage: Stage) -> list[str]:
    """Return the results of a completed stage of which nothing was taken at the end of its job."""
    attempt = stage.source
    if attempt is None or attempt.ended_at is None or stage.reused is not None:
        return []
    left = _left(attempt)
    return [one["path"] for one in attempt.results if "sha256" not in left.get(one["path"], {})]


def _left(attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Return what was seen at the end of the job, by path: its outputs, or else all that it left.

    What the log of an earlier program holds has no digest.
    """
    seen = attempt.evidence or {} if attempt.action == "succeeded" else {}
    outputs = {one["path"]: one for one in seen.get("outputs", [])}
    known = {path: {k: v for k, v in one.items() if v is not None} for path, one in outputs.items()}
    return {one["path"]: one for one in attempt.left if not one.get("at")} | known


def _end(attempt: Attempt) -> float | None:
    """Return when the job ended and was collected, by the latest word, in seconds."""
    seen = attempt.evidence or {}
    said = [job.get("ended_at") for job in seen.get("jobs", [])]
    said += [(seen.get(name) or {}).get("mtime") for name in ("exit_marker", "done_marker")]
    ends = [one / 1e9 for one in said if one]
    if attempt.ended_at is not None:
        ends.append(datetime.fromisoformat(attempt.ended_at).timestamp())
    return max(ends, default=None)
