"""The jobs that an ``attempt.observed`` saw, read from evidence that anybody may have written."""

from __future__ import annotations

from typing import Any

from lifecycle.event import Event


def jobs_seen(event: Event) -> list[dict[str, Any]]:
    """Return each job as an object; none for other events and for evidence of another shape.

    Other events give their evidence in words (`stage.completed`), or give none.
    """
    evidence = event.data.get("evidence") if event.type == "attempt.observed" else None
    jobs = evidence.get("jobs") if isinstance(evidence, dict) else None
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
