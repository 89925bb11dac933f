"""What a person decides beside amendments and approvals: what is signed, and whether it holds.

A claim against the evidence, results that somebody changed afterwards, an edit that is dismissed,
the limit of a loop; of a workflow or of a machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from eventstore.codec import canonical, digest
from service.consent import proof as consent

#: The form of the statement; another one would be recorded with the decisions that it is of.
_FORM = 1
_OVERRULED = "claim.overruled"
#: Event type → what is agreed to, beside the workflow or machine, its policy and the head.
_SIGNED = {
    _OVERRULED: ("stage", "attempt", "claim", "verdict", "reason"),
    "results.adopted": ("stage", "outputs", "reason"),
    "drift.reverted": ("file", "detected", "kept_as"),
    "machine.limited": ("loop", "before", "to", "reason"),
}


class Decided(consent.Policy, Protocol):
    """The workflow or the machine that is decided about."""

    id: str


def statement_of(state: Decided, type_: str, data: Mapping[str, Any], head: str) -> bytes:
    """Return what is agreed to of a decision at the hash of a head, as canonical JSON."""
    said = {name: data[name] for name in _SIGNED[type_]}
    known: dict[str, Any] = {"claim": said}
    if type_ != _OVERRULED:
        known = {"decision": said, "type": type_}
    known |= {"form": _FORM, "head": head, "policy": state.consent, "workflow": state.id}
    return canonical(known)


def objection(state: Decided, type_: str, event: consent.RecordedApproval) -> str | None:
    """Return why the proof of a recorded decision does not hold, None where it does."""
    proof = event.data.get("proof") or {}
    if not proof:
        return "it has no proof of consent"
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    statement = statement_of(state, type_, event.data, event.prev_hash)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another decision or head"
    return consent.by_policy(state, event, proof, statement)
