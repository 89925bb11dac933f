"""Commands: what a finding leads to, a pure function of it and of the state."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lifecycle import payload as p
from lifecycle.decide_stages import can_recover
from lifecycle.payload import Payload
from lifecycle.workflow import Attempt as Recorded
from lifecycle.workflow import Stage
from reconciler.attempt import Attempt
from reconciler.dispatch import launched
from reconciler.finding import Finding, lacks_launch
from reconciler.runner import Facts, Mode
from reconciler.verdict import Action


def following(
    stage: Stage,
    finding: Finding,
    facts: Facts,
    attempt: Attempt,
    reason_of: Callable[[Attempt], str],
) -> list[Payload]:
    """Return the commands that a finding leads to, launches aside.

    ``reason_of`` says of a failed attempt why.
    """
    recorded, found = stage.attempts[-1], finding.verdict
    commands: list[Payload] = []
    if lacks_launch(stage, finding.evidence, found):
        launch_ = launched(attempt, Mode(recorded.mode), facts)
        foreign = {"session": recorded.session} if recorded.taken_over else {}
        commands.append(launch_.model_copy(update=foreign))
    if found.action is Action.SUCCEEDED and recorded.diagnostic:
        commands.append(_failed(stage, recorded, f"diagnostic run: {reason_of(attempt)}"))
    elif found.action is Action.SUCCEEDED:
        commands.append(_computed(stage, recorded, finding))
    elif found.action is Action.FAILED:
        commands.append(_failed(stage, recorded, f"{found.reason}: {reason_of(attempt)}"))
    elif found.action is Action.LOST and not can_recover(stage):
        commands.append(
            _failed(
                stage, recorded, f"lost twice; the last time: {found.reason}: {reason_of(attempt)}"
            )
        )
    return commands


def observed(stage: Stage, finding: Finding) -> list[Payload]:
    """Return the command that records a finding; the rules drop it where it says nothing new."""
    found = finding.verdict
    return [
        p.AttemptObserved(
            stage=stage.id,
            attempt=finding.attempt,
            row=found.row,
            verdict=found.name,
            action=found.action.value,
            reason=found.reason,
            evidence=finding.evidence.to_dict(),
        )
    ]


def _computed(stage: Stage, recorded: Recorded, finding: Finding) -> Payload:
    ids: list[JsonValue] = [job.id for job in finding.evidence.jobs if job.id]
    return p.StageComputed(
        stage=stage.id,
        attempt=recorded.id,
        exit_code=0,
        detail=f"{recorded.id}, exit 0",
        facts={"job_ids": ids} if ids else {},
    )


def _failed(stage: Stage, recorded: Recorded, error: str) -> Payload:
    return p.StageFailed(stage=stage.id, attempt=recorded.id, error=error)


def when(command: Payload, finding: Finding) -> str | None:
    """Return when it was so: a computation's end by its own record, anything else now.

    A record from the future, of a clock that is ahead, counts as now.
    """
    ended = finding.verdict.occurred_at
    if ended is None or not isinstance(command, p.StageComputed | p.StageFailed):
        return None
    return min(ended, finding.evidence.observed_at)
