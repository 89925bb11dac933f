"""The fold: (state, event) → state. Pure; an event of a type it need not know changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from lifecycle.errors import NoWorkflow
from lifecycle.event import Event
from lifecycle.fold import amendments as amending
from lifecycle.fold import imported, stages
from lifecycle.fold.foldable import UNFOLDABLE, fold_in, why_not
from lifecycle.state.workflow import Drift, Session, Workflow
from lifecycle.words.document import DEFINITIONAL, STAGE_FIELDS, WORKFLOW_FIELDS, restore


def _detected(draft: Workflow, event: Event) -> None:
    """Keep in mind what waits for somebody; a change of the form alone does not."""
    data = event.data
    if data.get("kept_as") is None or not (data["differences"] or data["kind"] == "unreadable"):
        return
    # What only an amendment may change of a stage that stays.
    touches = [
        ".".join([one["stage"], *map(str, one["path"])])
        for one in data["differences"]
        if one.get("stage") is not None and (one.get("path") or [None])[0] in DEFINITIONAL
    ]
    known = {name: data[name] for name in ("file", "kind", "base", "kept_as")}
    draft.drifts.append(Drift(event.version, **known, touches=touches))


def _adopted(draft: Workflow, event: Event) -> None:
    """Close the drift; take over the fields that nobody specified."""
    for change in event.data.get("unknown", []):
        _take_over(draft, change)
    rest = event.data.get("rest")
    if not rest:
        _close(draft, event)
        return
    for drift in draft.drifts:
        if drift.version == event.data["detected"]:
            drift.rest = rest
            drift.touches = [one for one in drift.touches if _is_among(one, rest)]


def _is_among(name: str, rest: list[str]) -> bool:
    """Whether a field is one of those named, holds one of them, or is part of one."""
    return any(f"{a}.".startswith(f"{b}.") for one in rest for a, b in ((one, name), (name, one)))


def _close(draft: Workflow, event: Event) -> None:
    draft.edits = with_decision(draft.edits, event)
    draft.drifts = [drift for drift in draft.drifts if drift.version != event.data["detected"]]


def with_decision(edits: list[dict[str, Any]], event: Event) -> list[dict[str, Any]]:
    """Return the hand edits that were decided with one more; the same decision again is one."""
    data, how = event.data, event.type.removeprefix("drift.")
    policy = (data.get("proof") or {}).get("policy")
    new = {"file": data["file"], "how": how, "by": data.get("approved_by"), "policy": policy}
    return edits if new in edits else [*edits, new]


def _take_over(draft: Workflow, change: dict[str, Any]) -> None:
    known = STAGE_FIELDS if change.get("stage") else WORKFLOW_FIELDS
    if change["field"] in known:
        return  # written past the rules: it would be shown in place of the field itself
    extra = draft.stages[change["stage"]].extra if change.get("stage") else draft.extra
    if change.get("removed"):
        extra.pop(change["field"], None)
    else:
        extra[change["field"]] = restore(change.get("value"), change.get("layout", {}))


E = TypeVar("E", bound=Event)
Apply = Callable[[Workflow, Event], None]

#: The fold's own version: a stored state folded by another is not used.
REDUCER = 21


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
        else:
            fold_in(draft, event, why_not(draft, event), partial(_apply, draft, event, accepted))
        draft.head = event.version
        if event.type not in imported.TYPES:
            # What somebody else typed holds until something happens here.
            is_alike = len(draft.updated) == len(event.occurred_at)
            draft.updated = max(draft.updated if is_alike else "", event.occurred_at)
        yield event, draft


def _apply(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    if event.type == "amendment.approved":
        amending.approve(draft, event, accepted)
        return
    apply, of_stage = _APPLY.get(event.type), stages.APPLY.get(event.type)
    if (apply is None and of_stage is None) or not amending.takes_effect(draft, event):
        return
    if apply is not None:
        apply(draft, event)
    elif of_stage is not None:
        of_stage(draft, draft.stages[event.data["stage"]], event)


def _create(event: Event) -> Workflow:
    if event.type not in ("workflow.created", "workflow.imported"):
        raise NoWorkflow(
            f"the first event is {event.type}; expected workflow.created or workflow.imported",
            type=event.type,
        )
    data = event.data
    try:
        draft = imported.workflow_of(restore(data["document"], data.get("layout", {})))
    except UNFOLDABLE as error:
        why = f"version {event.version}: the document is no workflow ({type(error).__name__})"
        raise NoWorkflow(why, type=event.type) from error
    draft.created = draft.created or event.occurred_at
    draft.updated = draft.updated or event.occurred_at
    draft.purpose = data.get("purpose")
    draft.consent = data.get("consent", "terminal")
    draft.signers = data.get("signers", [])
    draft.root = data.get("root", {})
    draft.import_end = data.get("events", 0)
    if data.get("proposed"):
        amending.propose_plan(draft, event.occurred_at)
    return draft


def _files(draft: Workflow, event: Event) -> None:
    """What was seen of files at the beginning; said later it would be another's word for them."""
    if not draft.is_beginning:
        return
    draft.scripts = event.data.get("scripts", {})
    for id_, found in event.data.get("attempts", {}).items():
        attempt = draft.stages[id_].attempt
        if attempt is not None and attempt.taken_over:
            attempt.submission_sha256 = found["submission_sha256"]
            attempt.inputs, attempt.scripts = found["inputs"], found["scripts"]


def _completed_workflow(draft: Workflow, event: Event) -> None:
    draft.workflow_status = "completed"
    draft.completions += 1
    draft.report = event.data.get("report")


def _reopened(draft: Workflow, event: Event) -> None:
    draft.workflow_status = None


def _session_started(draft: Workflow, event: Event) -> None:
    draft.session = Session(
        count=event.data["number"],
        id=event.occurred_at,
        is_open=True,
        driven=event.data.get("driven", False),
        report=event.data.get("report"),
    )


def _session_ended(draft: Workflow, event: Event) -> None:
    reason = event.data["reason"]
    draft.session.is_open = False
    draft.session.exit_reason = None if reason == "waiting" else reason
    for stage in draft.stages.values():
        stage.uncharged = False  # what a session left is not for another to pay


def _charged(draft: Workflow, event: Event) -> None:
    draft.session.cost += event.data["weight"]
    stage = draft.stages.get(event.data["stage"])
    if stage is not None:
        stage.uncharged = False


_APPLY: dict[str, Apply] = {
    "line.imported": imported.fold_line,
    "state.imported": imported.fold_state,
    "files.recorded": _files,
    "workflow.completed": _completed_workflow,
    "workflow.reopened": _reopened,
    "amendment.proposed": amending.propose,
    "amendment.rejected": amending.reject,
    "drift.detected": _detected,
    "drift.adopted": _adopted,
    "drift.reverted": _close,
    "session.started": _session_started,
    "session.ended": _session_ended,
    "cost.charged": _charged,
}
