"""Why an attempt failed, as it is recorded: the cause first, and whole what it was found in."""

from __future__ import annotations

from lifecycle.payload import models as p
from reconciler.verdict.diagnosis import Diagnosis


def failure(stage: str, attempt: str, found: Diagnosis, *circumstances: str) -> p.StageFailed:
    """Return the failure by its diagnosis: its cause, how the jobs ended, and what else is known.

    ``circumstances`` are such as the verdict's own words; they stand alone where they hold all.
    """
    cause = [found.cause] if found.cause else []
    lines = [*cause, *found.jobs, *circumstances]
    return p.StageFailed(
        stage=stage,
        attempt=attempt,
        error="; ".join(dict.fromkeys(lines)) or "no trace of a failure was left",
        category=found.category,
        because=found.because,
        output=found.output,
    )
