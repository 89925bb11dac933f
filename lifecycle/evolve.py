"""The fold: (state, event) → state. Pure; an event of a type it need not know changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeVar

from lifecycle import evolve_amendments as amending
from lifecycle import evolve_drift as drifting
from lifecycle import evolve_stages as stages
from lifecycle.document import STAGE_FIELDS, WORKFLOW_FIELDS, default_session_config
from lifecycle.errors import NoWorkflow
from lifecycle.event import Event
from lifecycle.layout import restore
from lifecycle.status import Status
from lifecycle.workflow import Amendment, Session, Stage, Workflow

E = TypeVar("E", bound=Event)
Apply = Callable[[Workflow, Event], None]

#: The fold's own version: a stored state folded by another is not used.
REDUCER = 2


def evolve(
    state: Workflow | None, events: Iterable[Event], accepted: Container[str] = frozenset()
) -> Workflow | None:
    """Return the state after ``events``; ``state`` itself is left as it was.

    ``accepted`` holds the hashes of the events whose proof of consent was verified.
    """
    result = state.draft() if state is not None else None
    for _, folded in steps(result, events, accepted):
        result = folded
    return result


def steps(
    draft: Workflow | None, events: Iterable[E], accepted: Container[str] = frozenset()
) -> Iterator[tuple[E, Workflow]]:
    """Yield each event with the state after it.

    The state yielded is one object, changed in place from step to step; it is the caller's
    own (`Workflow.draft`). Raises `NoWorkflow` where the first event creates none.
    """
    for event in events:
        if draft is None:
            draft = _create(event)
        elif event.type == "amendment.approved":
            amending.approve(draft, event, accepted)
        else:
            apply = _APPLY.get(event.type)
            if apply is not None and amending.takes_effect(draft, event):
                apply(draft, event)
        draft.head = event.version
        draft.updated = max(draft.updated, event.occurred_at)
        yield event, draft


def _create(event: Event) -> Workflow:
    if event.type not in ("workflow.created", "workflow.imported"):
        raise NoWorkflow(
            f"the first event is {event.type}; expected workflow.created or workflow.imported",
            type=event.type,
        )
    data = event.data
    document: dict[str, Any] = restore(data["document"], data.get("layout", {}))
    return Workflow(
        id=document["workflow_id"],
        created=document.get("created") or event.occurred_at,
        updated=document.get("updated") or event.occurred_at,
        version=document.get("version", 1),
        workflow_status=document.get("workflow_status"),
        experiment_design=document.get("experiment_design"),
        workflow_plan=document.get("workflow_plan"),
        amendments=_recorded_amendments(document.get("amendments", [])),
        session_config=document.get("session_config", {}),
        session=_session(document.get("session_config") or default_session_config()),
        default_backend=document.get("default_backend", "local"),
        backend_profiles=document.get("backend_profiles", {}),
        stages={entry["id"]: stage_of(entry) for entry in document["stages"]},
        purpose=data.get("purpose"),
        consent=data.get("consent", "terminal"),
        root=data.get("root", {}),
        extra={k: v for k, v in document.items() if k not in WORKFLOW_FIELDS},
        order=list(document) if event.type == "workflow.imported" else None,
    )


def stage_of(entry: dict[str, Any]) -> Stage:
    """Return the stage that an entry of the document's ``stages`` describes."""
    known = {k: v for k, v in entry.items() if k in STAGE_FIELDS and k != "status"}
    extra = {k: v for k, v in entry.items() if k not in STAGE_FIELDS}
    status = Status(entry.get("status", "pending"))
    return Stage(**known, status=status, extra=extra)


def _recorded_amendments(records: list[dict[str, Any]]) -> dict[str, Amendment]:
    return {
        record["id"]: Amendment(
            id=record["id"],
            kind=record.get("type", ""),
            stage=record.get("stage_id"),
            description=record.get("description", ""),
            proposed_at=record.get("timestamp", ""),
            changes=record.get("changes", {}),
            status="approved",
            version=record.get("version"),
            record=record,
        )
        for record in records
    }


def _session(config: dict[str, Any]) -> Session:
    return Session(
        count=config.get("session_count", 0),
        id=config.get("session_id"),
        cost=config.get("session_cost", 0),
        exit_reason=config.get("exit_reason"),
    )


def _completed_workflow(draft: Workflow, event: Event) -> None:
    draft.workflow_status = "completed"


def _reopened(draft: Workflow, event: Event) -> None:
    draft.workflow_status = None


def _session_started(draft: Workflow, event: Event) -> None:
    draft.session = Session(count=event.data["number"], id=event.occurred_at, is_open=True)


def _session_ended(draft: Workflow, event: Event) -> None:
    reason = event.data["reason"]
    draft.session.is_open = False
    draft.session.exit_reason = None if reason == "waiting" else reason


def _charged(draft: Workflow, event: Event) -> None:
    draft.session.cost += event.data["weight"]


_APPLY: dict[str, Apply] = {
    "workflow.completed": _completed_workflow,
    "workflow.reopened": _reopened,
    "stage.readied": stages.readied,
    "stage.prepared": stages.prepared,
    "attempt.started": stages.attempt_started,
    "stage.launched": stages.launched,
    "stage.computed": stages.computed,
    "stage.completed": stages.completed,
    "stage.failed": stages.failed,
    "stage.retried": stages.retried,
    "stage.invalidated": stages.invalidated,
    "stage.skipped": stages.skipped,
    "stage.blocked": stages.blocked,
    "attempt.observed": stages.observed,
    "attempt.relaunched": stages.relaunched,
    "outputs.recorded": stages.outputs,
    "checkpoint.recorded": stages.checkpoint,
    "amendment.proposed": amending.propose,
    "amendment.rejected": amending.reject,
    "drift.detected": drifting.detected,
    "drift.adopted": drifting.adopted,
    "drift.reverted": drifting.reverted,
    "session.started": _session_started,
    "session.ended": _session_ended,
    "cost.charged": _charged,
}
