"""Consent to approvals: the same policies and proofs as for amendments.

A proof is bound to the machine, the approval, the choice, and the head it was given at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eventstore.codec import canonical, digest
from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.machines.definition import DEFINITION
from lifecycle.machines.gate import closed_to
from lifecycle.machines.machine import Bound, Machine
from service.consent import decisions
from service.consent.approvals import Approvals
from service.consent.proof import RecordedApproval, as_of, by_policy

APPROVED = "machine.approved"
WITHDRAWN = "machine.withdrawn"
LIMITED = "machine.limited"
TRANSITIONED = "machine.transitioned"
#: The form of the statements that are signed now. The second names no fields, and the first no
#: files either; what was signed in any of them goes on to count.
FORM = 3
_SECOND = 2


def statement_of(
    state: Machine,
    approval: str,
    choice: str | None,
    head: str,
    bound: Bound,
) -> bytes:
    """Return what is signed: canonical JSON of all that a proof is bound to.

    ``bound`` is what the approval is of: no fields in the second form, no files in the first.
    """
    known: dict[str, Any] = {}
    if bound.files is not None:
        known = {"files": bound.files, "form": _SECOND}
    if bound.fields is not None:
        ways = [way.to for way in state.definition.ways_of(approval)]
        known |= {"fields": bound.fields, "form": FORM, "leads_to": ways}
    return canonical({**known, **_said(state, approval, head), "choice": choice})


def withdrawal_of(state: Machine, approval: str, head: str) -> bytes:
    """Return what is signed where an approval is taken back."""
    return canonical({**_said(state, approval, head), "form": FORM, "withdraws": True})


def _said(state: Machine, approval: str, head: str) -> dict[str, Any]:
    return {
        "approval": approval,
        "asks": state.known_approvals[approval].asks,
        "head": head,
        "machine": state.id,
        "phase": state.phase,
        "policy": state.consent,
        **(definition_of(state) if approval == DEFINITION else {}),
    }


def definition_of(state: Machine) -> dict[str, Any]:
    """Return what is agreed to with a definition of one's own: its text, and who may agree later.

    Nothing where it is no matter of agreement: an approval may have had this name before.
    """
    if state.definition_agreed is None:
        return {}
    known = {"definition": state.definition.source(), "phases": list(state.definition.phases)}
    return {**known, "sha256": digest(canonical(known)), "signers": state.signers}


def objection(state: Machine, type_: str, given: RecordedApproval) -> str | None:
    """Return why an approval, or its withdrawal, does not count in ``state``; None: it does."""
    if type_ == LIMITED:
        return decisions.objection(state, type_, given)
    name, proof = given.data.get("approval"), given.data.get("proof")
    known = state.known_approvals.get(str(name))
    if known is None or known.phase != state.phase:
        return f"no approval {name!r} is given in the phase {state.phase}"
    if not isinstance(proof, dict) or not proof:
        return "it has no proof of consent"
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    return _unbound(state, type_, given, proof)


def _unbound(
    state: Machine, type_: str, given: RecordedApproval, proof: Mapping[str, Any]
) -> str | None:
    data, head = given.data, given.prev_hash
    if type_ == WITHDRAWN:
        statement = withdrawal_of(state, data["approval"], head)
    else:
        bound = Bound(data.get("files"), data.get("fields"))
        if proof.get("form") != _form_of(bound):
            return "its proof does not say which fields and files it is of"
        statement = statement_of(state, data["approval"], data.get("choice"), head, bound)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another approval, choice, fields, files or head"
    return by_policy(state, given, proof, statement)


def _form_of(bound: Bound) -> int | None:
    if bound.fields is not None:
        return FORM
    return _SECOND if bound.files is not None else None


class Judge:
    """Which approvals and changes of phase of a stream count, judged one by one as it is folded.

    ``accepted`` holds the hash of the approval that the fold takes up next, where it counts.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.accepted: set[str] = set()
        self.refused: dict[int, str] = {}
        self.state: Machine | None = None
        self._latest = ""
        self._pins = Approvals(store, stream, root)

    def judged(self, events: Iterator[RecordedEvent]) -> Iterator[RecordedEvent]:
        """Yield the events, each approval judged in the state before it."""
        for event in events:
            self.accepted.clear()
            self._latest = max(self._latest, event.recorded_at)
            if event.type in (APPROVED, WITHDRAWN, LIMITED) and self.state is not None:
                self._judge(event, self.state, self._latest)
            elif event.type == TRANSITIONED and self.state is not None:
                self._judge_way(event, self.state)
            yield event

    def _judge_way(self, event: RecordedEvent, state: Machine) -> None:
        why = closed_to(state, event.data)
        if why is not None:
            self.refused[event.version] = why

    def _judge(self, event: RecordedEvent, state: Machine, at: str) -> None:
        why = self._pins.pin_objection() or objection(state, event.type, as_of(event, at))
        if why is None:
            self.accepted.add(event.hash)
        else:
            self.refused[event.version] = why
