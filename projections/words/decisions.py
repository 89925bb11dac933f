"""Amendments with who proposed and who decided them, from the events that did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.fold.evolve import proposed_in
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.document import rewired_fields
from projections.words.amendments import told


@dataclass(frozen=True, slots=True)
class AmendmentRecord:
    """An amendment with who proposed and who decided it. Times are UTC.

    ``change`` says what it changes, and behind it what its proposer calls it (`told`). Nobody is
    known to have proposed one of an earlier record.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(slots=True)
class AmendmentFold:
    """The events by which amendments were proposed and decided."""

    proposed: dict[str, RecordedEvent] = field(default_factory=dict)
    decided: dict[str, RecordedEvent] = field(default_factory=dict)

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event and the state after it."""
        if (proposes := proposed_in(event)) is not None:
            self.proposed.setdefault(proposes, event)
        elif event.type in ("amendment.approved", "amendment.rejected"):
            amendment = state.amendments.get(str(event.data.get("amendment")))
            if amendment is not None and event.type.endswith(amendment.status):
                self._decide(amendment, event)

    def _decide(self, amendment: Amendment, event: RecordedEvent) -> None:
        """Keep the first decision, unless another one took its place: a plan may be both."""
        before = self.decided.get(amendment.id)
        if before is None or before.type != event.type:
            self.decided[amendment.id] = event

    def records(self, state: Workflow) -> list[AmendmentRecord]:
        """Return every amendment of a state in the order of its proposal."""
        return [self._record(one) for one in state.amendments.values()]

    def answer(self, amendment: str) -> str | None:
        """Return the reason of the person who decided, if one was given."""
        decided = self.decided.get(amendment)
        return decided.data.get("reason") if decided is not None else None

    def _record(self, amendment: Amendment) -> AmendmentRecord:
        proposed, decided = self.proposed.get(amendment.id), self.decided.get(amendment.id)
        proof = (decided.data.get("proof") or {}) if decided is not None else {}
        return AmendmentRecord(
            id=amendment.id,
            type=amendment.kind,
            stage=amendment.stage,
            fields=_fields(amendment),
            change=told(amendment),
            state=amendment.status,
            description=amendment.description,
            reason=amendment.reason,
            proposed_at=amendment.proposed_at,
            proposed_by=who(proposed),
            decided_at=amendment.decided_at,
            decided_by=amendment.approved_by if amendment.mandate else who(decided),
            policy=proof.get("policy"),
            signer=proof.get("signer"),
            version=amendment.version,
            affected=amendment.invalidated_stages,
        )


def _fields(amendment: Amendment) -> list[str]:
    found = list(_named(amendment.changes))
    for stage, change in amendment.rewired.items():
        found += [f"{stage}.{name}" for name in _named(rewired_fields(change))]
    return found


def _named(changes: dict[str, Any]) -> Iterator[str]:
    for name, change in changes.items():
        keyed = isinstance(change, dict) and not {"old", "new"} & set(change)
        yield from (f"{name}.{key}" for key in change) if keyed else (name,)


def who(event: RecordedEvent | None) -> str | None:
    """Return the actor of an event, None without one."""
    return str(event.actor) if event is not None else None
