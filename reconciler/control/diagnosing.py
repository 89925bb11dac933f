"""The diagnosis of a stage's attempt: by its jobs, of a sweep by its tasks, else by its checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs
from reconciler.evidence.collect import Evidence
from reconciler.verdict.diagnosis import Diagnosis, diagnose


def diagnosis(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    evidence: Evidence | None,
    verdict: str | None,
) -> Diagnosis:
    """Return the diagnosis of an attempt by its evidence and the verdict on it."""
    found = diagnose(attempt, evidence, verdict)
    if not is_sweep(stage.parameters):
        return found
    from reconciler.sweep import causes  # only where a stage has tasks

    return causes.diagnosis_of(found, attempt.root, causes.failed_of(attempt.root, state, stage))


def of_newest(jobs: Jobs, state: Workflow, stage: Stage, recorded: Recorded) -> Diagnosis:
    """Return the diagnosis of the newest attempt by what is recorded of it, and by its files."""
    evidence = Evidence.from_dict(recorded.evidence) if recorded.evidence else None
    attempt = jobs.attempt(state, stage, recorded.id)
    found = diagnosis(state, stage, attempt, evidence, recorded.verdict)
    failed = list(_failures(jobs, stage))[-1:] if stage.status is Status.FAILED else []
    for data in failed:
        if any(not check["passed"] for check in data["checks"]):
            said = {name: data[name] for name in ("category", "because", "output")}
            return replace(found, **said, has_output=True)
    return found


def _failures(jobs: Jobs, stage: Stage) -> Iterator[dict[str, Any]]:
    for event in jobs.service.log.events():
        if event.type == "stage.failed" and event.data["stage"] == stage.id:
            yield event.data
