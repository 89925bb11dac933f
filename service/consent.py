"""Consent: which approvals in a log count, whoever wrote the row.

An approval counts where its proof is one under the policy in force at that point, for this
amendment, at this head, with this impact. Nothing else is asked: not who appended it, nor how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from eventstore.codec import canonical, digest
from eventstore.event import Actor
from lifecycle.decide_amendments import check_fits
from lifecycle.errors import LifecycleError
from lifecycle.impact import Impact, impact_of
from lifecycle.schema import payload_of
from lifecycle.workflow import Amendment, Workflow
from service import signature


class Policy(Protocol):
    """The policy in force: of a workflow, or of a machine."""

    @property
    def consent(self) -> str:
        """``terminal``, ``signature`` or ``trust``."""
        ...

    @property
    def signers(self) -> list[str]:
        """Lines of an allowed-signers file."""
        ...


class Approval(Protocol):
    """An approval as it stands in the log, or as it would."""

    @property
    def data(self) -> dict[str, Any]:
        """The payload, decoded."""
        ...

    @property
    def prev_hash(self) -> str:
        """Hash of the event before it: the head it was given at."""
        ...

    @property
    def actor(self) -> Actor:
        """Who approved."""
        ...

    @property
    def occurred_at(self) -> str:
        """When, UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """An approval that is not recorded yet."""

    data: dict[str, Any]
    prev_hash: str
    actor: Actor
    occurred_at: str


def content_of(amendment: Amendment) -> dict[str, Any]:
    """Return what a person agrees to: the amendment, without what became of it."""
    return {
        "id": amendment.id,
        "type": amendment.kind,
        "stage": amendment.stage,
        "description": amendment.description,
        "reason": amendment.reason,
        "changes": amendment.changes,
        "insert": amendment.insert,
        "place": amendment.place,
        "rewired": amendment.rewired,
    }


def _proposal(amendment: Amendment) -> dict[str, Any]:
    content = content_of(amendment)
    named = {"amendment": content.pop("id"), "kind": content.pop("type")}
    return {**content, **named}


def statement_of(state: Workflow, amendment: Amendment, impact: Impact, head: str) -> bytes:
    """Return what is signed: canonical JSON of all that a proof is bound to."""
    return canonical(
        {
            "amendment": content_of(amendment),
            "head": head,
            "impact": impact_digest(impact),
            "policy": state.consent,
            "workflow": state.id,
        }
    )


def impact_digest(impact: Impact) -> str:
    """Return the digest by which an impact that was shown is known again."""
    return digest(canonical(impact.binding()))


def proof_of(statement: bytes, policy: str, **how: Any) -> dict[str, Any]:
    """Return a proof bound to a statement; ``how`` says how the person agreed."""
    return {"policy": policy, "statement": digest(statement), **how}


def objection(state: Workflow, approval: Approval) -> str | None:
    """Return why an approval does not count in ``state``, None where it does."""
    data = approval.data
    amendment = state.amendments.get(str(data.get("amendment")))
    if amendment is None:
        return "there is no such amendment"
    if amendment.status != "proposed":
        return f"{amendment.id} is {amendment.status} already"
    proof = data.get("proof")
    if not isinstance(proof, dict) or not proof:
        return "it has no proof of consent"
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    try:
        payload_of("amendment.approved", data)
        payload_of("amendment.proposed", _proposal(amendment))
        check_fits(state, amendment)
    except LifecycleError as error:
        return error.message
    return _unbound(state, amendment, approval, proof)


def _unbound(
    state: Workflow, amendment: Amendment, approval: Approval, proof: Mapping[str, Any]
) -> str | None:
    data = approval.data
    impact = impact_of(state, amendment, data.get("kept"))
    if (data.get("version"), data.get("invalidated_stages")) != (
        state.version + 1,
        list(impact.affected),
    ):
        return "its version or its list of affected stages is not what follows from the amendment"
    statement = statement_of(state, amendment, impact, approval.prev_hash)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another amendment, impact or head"
    return by_policy(state, approval, proof, statement)


def by_policy(
    state: Policy, approval: Approval, proof: Mapping[str, Any], statement: bytes
) -> str | None:
    """Return why a proof that is bound to ``statement`` does not count under the policy."""
    if state.consent == "terminal" and approval.actor.kind == "agent":
        return f"an agent ({approval.actor.name}) cannot agree"
    if state.consent != "signature":
        return None
    signed, signer = proof.get("signature"), proof.get("signer")
    if not isinstance(signed, str) or not isinstance(signer, str):
        return "it has no signature"
    return signature.objection(statement, signed, signer, state.signers, approval.occurred_at)
