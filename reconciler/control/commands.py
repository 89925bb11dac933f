"""Commands: what a finding leads to, a pure function of it and of the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lifecycle.payload import models as p
from lifecycle.rules.stages import can_recover
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Mode, SubmissionFacts
from reconciler.control.dispatch import launched
from reconciler.control.strangers import AttemptFinding, lacks_launch
from reconciler.verdict.diagnosis import Diagnosis
from reconciler.verdict.table import Action, Name

if TYPE_CHECKING:
    from pydantic import JsonValue

    from lifecycle.payload.models import Payload


def following(
    stage: Stage,
    finding: AttemptFinding,
    facts: SubmissionFacts,
    attempt: AttemptPaths,
    diagnosis_of: Callable[[AttemptPaths], Diagnosis],
    versions_of: Callable[[AttemptPaths], dict[str, str]],
) -> list[Payload]:
    """Return the commands that a finding leads to, launches aside.

    ``diagnosis_of`` says of a failed attempt why, ``versions_of`` with which software it computed.
    """
    recorded, found = stage.attempts[-1], finding.verdict
    commands: list[Payload] = []
    if lacks_launch(stage, finding.evidence, found):
        launch_ = launched(attempt, Mode(recorded.mode), facts)
        foreign = {"session": recorded.session} if recorded.taken_over else {}
        commands.append(launch_.model_copy(update=foreign))
    if found.action is Action.SUCCEEDED and recorded.diagnostic:
        commands.append(
            stage_failure(stage.id, recorded.id, diagnosis_of(attempt), "a diagnostic run")
        )
    elif found.action is Action.SUCCEEDED:
        commands.append(_computed(stage, recorded, finding, versions_of(attempt)))
    elif found.action is Action.FAILED:
        # Of a command that failed its own exit code and words say more than that it did.
        more = [] if found.name == Name.TASK_FAILED else [found.reason]
        failed = stage_failure(stage.id, recorded.id, diagnosis_of(attempt), *more)
        codes = (job.told_code for job in finding.evidence.jobs if job.told_code)
        commands.append(failed.model_copy(update={"exit_code": next(codes, None)}))
    elif found.action is Action.LOST and not can_recover(stage):
        why = f"lost twice; the last time: {found.reason}"
        commands.append(stage_failure(stage.id, recorded.id, diagnosis_of(attempt), why))
    return commands


def observed(stage: Stage, finding: AttemptFinding) -> Payload:
    """Return the command that records a finding; the rules drop it where it says nothing new."""
    found = finding.verdict
    return p.AttemptObserved(
        stage=stage.id,
        attempt=finding.attempt,
        row=found.row,
        verdict=found.name,
        action=found.action.value,
        reason=found.reason,
        evidence=finding.evidence.to_dict(),
    )


def _computed(
    stage: Stage, recorded: Recorded, finding: AttemptFinding, versions: dict[str, str]
) -> Payload:
    ids: list[JsonValue] = [job.id for job in finding.evidence.jobs if job.id]
    software: dict[str, JsonValue] = {**versions}
    known: dict[str, JsonValue] = {"job_ids": ids, "environment": software}
    of_tasks = finding.verdict.name == Name.TASKS_DONE
    detail = f"{recorded.id}: {finding.verdict.reason}" if of_tasks else f"{recorded.id}, exit 0"
    return p.StageComputed(
        stage=stage.id,
        attempt=recorded.id,
        exit_code=0,
        detail=detail,
        facts={name: value for name, value in known.items() if value},
    )


def when(command: Payload, finding: AttemptFinding) -> str | None:
    """Return when it was so: a computation's end by its own record, anything else now.

    A record from the future, of a clock that is ahead, counts as now.
    """
    ended = finding.verdict.occurred_at
    if ended is None or not isinstance(command, p.StageComputed | p.StageFailed):
        return None
    return min(ended, finding.evidence.observed_at)


def stage_failure(stage: str, attempt: str, found: Diagnosis, *circumstances: str) -> p.StageFailed:
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
