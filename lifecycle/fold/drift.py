"""The fold of foreign changes: kept, then adopted or reverted."""

from __future__ import annotations

from typing import Any

from lifecycle.event import Event
from lifecycle.state.workflow import Drift, Workflow
from lifecycle.words.document import DEFINITIONAL, STAGE_FIELDS, WORKFLOW_FIELDS
from lifecycle.words.layout import restore


def detected(draft: Workflow, event: Event) -> None:
    """Keep in mind what waits for somebody; a change of the form alone does not."""
    data = event.data
    if data.get("kept_as") is None or not (data["differences"] or data["kind"] == "unreadable"):
        return
    draft.drifts.append(
        Drift(
            event.version,
            data["file"],
            data["kind"],
            data["base"],
            data["kept_as"],
            [_name(d) for d in data["differences"] if _is_definitional(d)],
        )
    )


def _is_definitional(difference: dict[str, Any]) -> bool:
    """Whether it changes what only an amendment may change of a stage that stays."""
    path = difference.get("path") or [None]
    return difference.get("stage") is not None and path[0] in DEFINITIONAL


def _name(difference: dict[str, Any]) -> str:
    return ".".join([difference["stage"], *map(str, difference["path"])])


def adopted(draft: Workflow, event: Event) -> None:
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


def reverted(draft: Workflow, event: Event) -> None:
    """Close the drift."""
    _close(draft, event)


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
