"""Helpers that build the state of a workflow from events, for tests of the rules."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from lifecycle.event import UnrecordedEvent
from lifecycle.fold.evolve import evolve
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow

AT = "2026-03-31T10:00:00.000000Z"
ACCEPTED = "accepted"

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "stages": [
        {"id": "stage-1", "name": "Build"},
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"]},
        {"id": "stage-3", "name": "Analyse", "depends_on": ["stage-2"]},
    ],
}


def attempt(stage: str, mode: Any = "tmux", **more: Any) -> p.AttemptStarted:
    """Return the command that starts an attempt of the stage."""
    fields: dict[str, Any] = {
        "root": "/somewhere",
        "work_dir": f"{stage}/.attempts/att-0001/work",
        "submission": f"{stage}/.attempts/att-0001/submission.json",
        "submission_sha256": "0" * 64,
        "wrapper": f"{stage}/dpdisp-run.sh",
    }
    return p.AttemptStarted(stage=stage, mode=mode, **{**fields, **more})


def launched(stage: str, id_: str = "att-0001") -> p.StageLaunched:
    """Return the command that records the launch of an attempt's job."""
    return p.StageLaunched(stage=stage, attempt=id_, mode="tmux", session="dpdisp")


def computed(stage: str, id_: str = "att-0001", exit_code: int = 0) -> p.StageComputed:
    """Return the command that records that an attempt's job ended with the given exit code."""
    return p.StageComputed(stage=stage, attempt=id_, exit_code=exit_code)


def completed(stage: str) -> p.StageCompleted:
    """Return the command that completes a stage, with a statement of a person as evidence."""
    return p.StageCompleted(stage=stage, evidence="looked at it")


def failed(stage: str) -> p.StageFailed:
    """Return the command that records the failure of a stage."""
    return p.StageFailed(stage=stage, error="it broke")


def through(stage: str, status: Status) -> list[Payload]:
    """Return the commands that take a ready stage to ``status``, one status after the other."""
    way: list[tuple[Status, Payload]] = [
        (Status.PREPARING, attempt(stage)),
        (Status.RUNNING, launched(stage)),
        (Status.POST_PROCESSING, computed(stage)),
        (Status.COMPLETED, completed(stage)),
    ]
    if status is Status.FAILED:
        return [*through(stage, Status.RUNNING), failed(stage)]
    names = [name for name, _ in way]
    upto = names.index(status) + 1 if status in names else 0
    return [command for _, command in way[:upto]]


def given(*commands: Payload, plan: dict[str, Any] | None = None) -> Workflow:
    """Return the state of a new workflow after the given commands, as decided by the rules."""
    created = build_creation_payload(plan or PLAN, created=AT, consent="trust")
    return follow(state_after(None, decide(None, created, AT), AT), *commands)


def follow(state: Workflow, *commands: Payload, at: str = AT) -> Workflow:
    """Return the state after further commands at the time ``at``, as decided by the rules."""
    for command in commands:
        state = state_after(state, decide(state, command, at), at)
    return state


def propose(
    state: Workflow, kind: Any, stage: str | None = None, **more: Any
) -> tuple[Workflow, Amendment]:
    """Return the state after a proposal, and the proposed amendment."""
    command = p.AmendmentProposed(kind=kind, stage=stage, description="because", **more)
    state = follow(state, command)
    return state, [*state.amendments.values()][-1]


def recorded(
    state: Workflow, *payloads: Payload, accepted: Container[str] = frozenset({ACCEPTED})
) -> Workflow:
    """Return the state after the given events are added without a check by the rules."""
    facts = [
        UnrecordedEvent(
            payload.type, payload.model_dump(mode="json"), AT, state.head + number, ACCEPTED
        )
        for number, payload in enumerate(payloads, 1)
    ]
    new = evolve(state, facts, accepted)
    assert new is not None
    return new


def approved(kind: Any, stage: str | None = None, **more: Any) -> list[Payload]:
    """Return the events of a proposed amendment and of its approval."""
    proposal = p.AmendmentProposed(
        amendment="amend-1", kind=kind, stage=stage, description="because", **more
    )
    return [proposal, p.AmendmentApproved(amendment="amend-1", version=2)]


def types(decision: Sequence[Payload]) -> list[str]:
    """Return the types of the given events."""
    return [payload.type for payload in decision]


def given_document() -> dict[str, Any]:
    """Return the workflow document that wfctl creates from the plan of these tests."""
    return build_creation_payload(PLAN, created=AT).document


def observed(stage: str, id_: str, action: str) -> p.AttemptObserved:
    """Return the command that records a verdict of the reconciler on an attempt."""
    return p.AttemptObserved(
        stage=stage,
        attempt=id_,
        row=9,
        verdict=f"SEEN_{action.upper()}",
        action=action,
        reason="looked",
        evidence={},
    )
