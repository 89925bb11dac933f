"""Collect the amendments (changes of the plan), with their proposers and deciders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.fold.evolve import find_proposed_id
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.document import collect_changes_by_field
from projections.words.amendments import describe_amendment


@dataclass(frozen=True, slots=True)
class AmendmentRecord:
    """An amendment with its proposer and the person who decided on it. Times are UTC.

    ``change`` describes the changes (see `describe_amendment`). The proposer of an imported
    amendment is None.
    """

    id: str
    type: str
    stage: str | None
    fields: list[str]
    change: str
    state: str
    description: str
    reason: str | None
    proposed_at: str
    proposed_by: str | None
    decided_at: str | None
    decided_by: str | None
    policy: str | None
    signer: str | None
    version: int | None
    affected: list[str]
    #: Account on the database server that recorded the decision. It can differ from the name that
    #: the person gave.
    database_user: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as a dict of JSON values."""
        return asdict(self)


@dataclass(slots=True)
class AmendmentFold:
    """Collects the events that proposed and decided amendments, while the log is read."""

    proposed: dict[str, RecordedEvent] = field(default_factory=dict)
    decided: dict[str, RecordedEvent] = field(default_factory=dict)

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Add an event. ``state`` is the state after the event."""
        if (proposes := find_proposed_id(event)) is not None:
            self.proposed.setdefault(proposes, event)
        elif event.type in ("amendment.approved", "amendment.rejected"):
            amendment = state.amendments.get(str(event.data.get("amendment")))
            if amendment is not None and event.type.endswith(amendment.status):
                self._keep_first_decision(amendment, event)

    def _keep_first_decision(self, amendment: Amendment, event: RecordedEvent) -> None:
        """Remember the first decision on an amendment, or a later one of another kind.

        For example, a plan may be rejected first and approved later.
        """
        before = self.decided.get(amendment.id)
        if before is None or before.type != event.type:
            self.decided[amendment.id] = event

    def records(self, state: Workflow) -> list[AmendmentRecord]:
        """Return all amendments of a state, in the order of their proposals."""
        return [self._build_record(one) for one in state.amendments.values()]

    def answer(self, amendment: str) -> str | None:
        """Return the reason for a decision on an amendment, or None without a reason."""
        decided = self.decided.get(amendment)
        return decided.data.get("reason") if decided is not None else None

    def _build_record(self, amendment: Amendment) -> AmendmentRecord:
        proposed, decided = self.proposed.get(amendment.id), self.decided.get(amendment.id)
        proof = (decided.data.get("proof") or {}) if decided is not None else {}
        return AmendmentRecord(
            id=amendment.id,
            type=amendment.kind,
            stage=amendment.stage,
            fields=_list_fields(amendment),
            change=describe_amendment(amendment),
            state=amendment.status,
            description=amendment.description,
            reason=amendment.reason,
            proposed_at=amendment.proposed_at,
            proposed_by=get_actor(proposed),
            decided_at=amendment.decided_at,
            decided_by=amendment.approved_by if amendment.mandate else get_actor(decided),
            policy=proof.get("policy"),
            signer=proof.get("signer"),
            version=amendment.version,
            affected=amendment.invalidated_stages,
            database_user=proof.get("database_user"),
        )


def _list_fields(amendment: Amendment) -> list[str]:
    found = list(_list_changed_names(amendment.changes))
    for stage, change in amendment.rewired.items():
        found += [
            f"{stage}.{name}" for name in _list_changed_names(collect_changes_by_field(change))
        ]
    return found


def _list_changed_names(changes: dict[str, Any]) -> Iterator[str]:
    for name, change in changes.items():
        keyed = isinstance(change, dict) and not {"old", "new"} & set(change)
        yield from (f"{name}.{key}" for key in change) if keyed else (name,)


def get_actor(event: RecordedEvent | None) -> str | None:
    """Return the author of an event, or None if there is no event."""
    return str(event.actor) if event is not None else None
