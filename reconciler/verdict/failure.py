"""Why an attempt failed, in a few lines: its jobs, their ends, the last of what they wrote."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.attempt.paths import Attempt
from reconciler.evidence.collect import Evidence
from reconciler.records import traces
from reconciler.verdict.diagnosis import line_of

_LINES = 10


def why(evidence: Evidence, attempt: Attempt) -> str:
    """Return the reason by the evidence, and by the attempt's own files."""
    errors = list(_errors(evidence, attempt)) or traces.errors_in_place(attempt)
    lines = [*map(line_of, evidence.jobs), *errors]
    return "\n".join(lines or traces.log_cause(attempt) or ["no trace of a failure was left"])


def _errors(evidence: Evidence, attempt: Attempt) -> Iterator[str]:
    if evidence.far is None:
        yield from traces.errors(attempt)
        return
    for text in evidence.far.errors:
        yield from text.splitlines()[-_LINES:]
