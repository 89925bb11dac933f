"""Claims that a person upheld against the evidence: what is signed, and whether the proof holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventstore.codec import canonical, digest
from service.consent import proof as consent

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent
    from lifecycle.state.workflow import Workflow

#: The form of the statement; another one would be recorded with the claims that it is of.
_FORM = 1
#: What is signed of a claim beside the workflow, its policy and the head.
_SIGNED = ("stage", "attempt", "claim", "verdict", "reason")


def statement_of(state: Workflow, data: Mapping[str, Any], head: str) -> bytes:
    """Return what is agreed to of a claim at the hash of a head, as canonical JSON."""
    claim = {name: data[name] for name in _SIGNED}
    return canonical(
        {
            "claim": claim,
            "form": _FORM,
            "head": head,
            "policy": state.consent,
            "workflow": state.id,
        }
    )


def objection(state: Workflow, event: RecordedEvent) -> str | None:
    """Return why the proof of a recorded claim does not hold, None where it does."""
    proof = event.data["proof"]
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    statement = statement_of(state, event.data, event.prev_hash)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another claim or head"
    return consent.by_policy(state, event, proof, statement)
