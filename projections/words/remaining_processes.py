"""Describe the processes that still ran when their job ended."""

from __future__ import annotations

from collections.abc import Sequence

from lifecycle.state.workflow import Attempt

#: Maximum number of processes to name in a message.
_NAMED = 3


def describe_remaining_processes(stage: str, attempt: Attempt) -> str | None:
    """Return a warning about processes that a successful attempt left running, or None."""
    seen = attempt.evidence or {} if attempt.action == "succeeded" else {}
    names = [name for job in seen.get("jobs", []) for name in job.get("remaining", [])]
    return format_remaining_processes(stage, names) if names else None


def format_remaining_processes(stage: str, names: Sequence[str]) -> str:
    """Return a warning that the named processes may still write results of a stage."""
    return (
        f"{join_process_names(names)} of its command still ran when the job ended, so the results "
        "may be incomplete or change later; end the command with `wait`, or check the results with "
        f"`wfctl verify {stage}`"
    )


def join_process_names(names: Sequence[str]) -> str:
    """Return the first names of processes, and the number of further processes."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
