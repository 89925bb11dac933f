"""Describe the processes that still ran when their job ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lifecycle.state.workflow import Attempt

#: Maximum number of processes that the record of a job's end names.
MAX_RECORDED = 20
#: Maximum number of processes to name in a message.
_NAMED = 3


def describe_remaining_processes(stage: str, attempt: Attempt) -> str | None:
    """Return a warning about processes that a successful attempt left running, or None."""
    seen = attempt.evidence or {} if attempt.action == "succeeded" else {}
    jobs = [job["remaining"] for job in seen.get("jobs", []) if job.get("remaining")]
    return format_remaining_processes(stage, jobs) if jobs else None


def format_remaining_processes(stage: str, jobs: Iterable[Sequence[str]]) -> str:
    """Return a warning that processes may still write results of a stage.

    ``jobs`` contains the names of the processes of each job.
    """
    return (
        f"{join_process_names(jobs)} of its command still ran when the job ended, so the results "
        "may be incomplete or change later; end the command with `wait`, or check the results with "
        f"`wfctl verify {stage}`"
    )


def join_process_names(jobs: Iterable[Sequence[str]]) -> str:
    """Return the first names of the processes of all jobs, and the number of further processes.

    If the record of a job names the maximum number of processes, more processes may exist.
    """
    jobs = list(jobs)
    names = [name for job in jobs for name in job]
    least = "at least " if any(len(job) >= MAX_RECORDED for job in jobs) else ""
    more = f" and {least}{len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
