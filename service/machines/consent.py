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
from lifecycle.machines.gate import closed_to
from lifecycle.machines.machine import Machine
from service.consent.approvals import Approvals
from service.consent.proof import Approval, as_of, by_policy

APPROVED = "machine.approved"
TRANSITIONED = "machine.transitioned"
#: The form of the statements that are signed now; the first names no files.
FORM = 2


def statement_of(
    state: Machine,
    approval: str,
    choice: str | None,
    head: str,
    files: Mapping[str, str] | None,
) -> bytes:
    """Return what is signed: canonical JSON of all that a proof is bound to.

    ``files`` are what the approval is of, each with its SHA-256 in hex; None in the first form.
    """
    bound = {} if files is None else {"files": dict(files), "form": FORM}
    return canonical(
        {
            **bound,
            "approval": approval,
            "asks": state.definition.approvals[approval].asks,
            "choice": choice,
            "head": head,
            "machine": state.id,
            "phase": state.phase,
            "policy": state.consent,
        }
    )


def objection(state: Machine, given: Approval) -> str | None:
    """Return why an approval does not count in ``state``, None where it does."""
    name, proof = given.data.get("approval"), given.data.get("proof")
    known = state.definition.approvals.get(str(name))
    if known is None or known.phase != state.phase:
        return f"no approval {name!r} is given in the phase {state.phase}"
    if not isinstance(proof, dict) or not proof:
        return "it has no proof of consent"
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    return _unbound(state, given, proof)


def _unbound(state: Machine, given: Approval, proof: Mapping[str, Any]) -> str | None:
    data = given.data
    files = data.get("files")
    if (proof.get("form") == FORM) != isinstance(files, dict):
        return "its proof does not say which files it is of"
    statement = statement_of(state, data["approval"], data.get("choice"), given.prev_hash, files)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another approval, choice, files or head"
    return by_policy(state, given, proof, statement)


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
            if event.type == APPROVED and self.state is not None:
                self._judge(event, self.state, self._latest)
            elif event.type == TRANSITIONED and self.state is not None:
                self._judge_way(event, self.state)
            yield event

    def _judge_way(self, event: RecordedEvent, state: Machine) -> None:
        why = closed_to(state, event.data)
        if why is not None:
            self.refused[event.version] = why

    def _judge(self, event: RecordedEvent, state: Machine, at: str) -> None:
        why = self._pins.pin_objection() or objection(state, as_of(event, at))
        if why is None:
            self.accepted.add(event.hash)
        else:
            self.refused[event.version] = why
