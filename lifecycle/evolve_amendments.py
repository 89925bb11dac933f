"""The fold of amendments: proposed, then approved with an accepted proof, or rejected."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from lifecycle.event import Event
from lifecycle.workflow import Amendment, Stage, Workflow

#: Fields whose values are objects; a change names the key inside: field → key → old and new.
KEYED = frozenset({"parameters", "backend_profiles", "session_config"})


def takes_effect(draft: Workflow, event: Event) -> bool:
    """Whether an event may change the state: what follows from an amendment needs it approved."""
    named = event.data.get("amendment") or event.data.get("superseded_by")
    if named is None or event.type.startswith("amendment."):
        return True
    amendment = draft.amendments.get(named)
    return amendment is not None and amendment.status == "approved"


def propose(draft: Workflow, event: Event) -> None:
    """Keep a proposal; nothing else changes."""
    data = event.data
    draft.amendments[data["amendment"]] = Amendment(
        id=data["amendment"],
        kind=data["kind"],
        stage=data.get("stage"),
        description=data["description"],
        proposed_at=event.occurred_at,
        changes=data.get("changes", {}),
        insert=data.get("insert"),
        place=data.get("place"),
    )


def reject(draft: Workflow, event: Event) -> None:
    """Close a proposal; nothing else changes."""
    amendment = draft.amendments.get(event.data["amendment"])
    if amendment is not None and amendment.status == "proposed":
        amendment.status = "rejected"
        amendment.decided_at = event.occurred_at


def approve(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    """Apply a proposal, where its proof of consent was accepted; else change nothing."""
    amendment = draft.amendments.get(event.data["amendment"])
    if amendment is None or amendment.status != "proposed" or event.hash not in accepted:
        return
    amendment.status = "approved"
    amendment.version = draft.version = event.data["version"]
    amendment.decided_at = event.occurred_at
    amendment.approved_by = event.data.get("approved_by", "user")
    amendment.invalidated_stages = event.data.get("invalidated_stages", [])
    if amendment.insert is not None:
        _insert(draft, amendment.insert, amendment.place)
    _change(draft, amendment)


def _insert(draft: Workflow, definition: dict[str, Any], place: int | None) -> None:
    entries = list(draft.stages.items())
    entries.insert(
        len(entries) if place is None else place, (definition["id"], Stage(**definition))
    )
    draft.stages = dict(entries)


def _change(draft: Workflow, amendment: Amendment) -> None:
    target = draft.stages[amendment.stage] if amendment.stage else draft
    for field, change in amendment.changes.items():
        setattr(target, field, _changed(getattr(target, field), field, change))


def _changed(value: Any, field: str, change: dict[str, Any]) -> Any:
    if field not in KEYED:
        return change["new"]
    new = dict(value)
    for key, leaf in change.items():
        if "new" in leaf:
            new[key] = leaf["new"]
        else:
            new.pop(key, None)
    return new
