"""Consent: which approvals in a log count, no matter who wrote the row.

An approval counts where its proof is one under the policy in force at that point, for this
amendment, at this head, with this impact. Nothing else is asked: not who appended it, nor how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from eventstore.chain import canonical, digest
from eventstore.event import Actor, RecordedEvent
from lifecycle.errors import LifecycleError
from lifecycle.fold.evolve import BY_MANDATE, version_after
from lifecycle.rules.impact import Impact, impact_of
from lifecycle.state.workflow import Amendment, Workflow

#: The form of the statements that are signed now. The third stopped what was under way for a change
#: of its verdict too; the second let go on what was under way downstream; the first had the impact
#: as a digest alone, and no files. What was signed in any of them goes on to count.
FORM = 4
_THIRD, _SECOND = 3, 2


class Policy(Protocol):
    """The policy in force, of a workflow or a machine: how, and lines of allowed signers."""

    consent: str
    signers: list[str]

    @property
    def has_new_signers(self) -> bool:
        """Whether nobody at a terminal has agreed to the signers yet."""
        ...


class Consenter(Protocol):
    """A person's agreement under one policy."""

    def ask(self, question: Any) -> bool:
        """Say whether the person agrees; raises `NeedsConsent` if nobody can be asked."""

    def prove(self, question: Any) -> dict[str, Any] | None:
        """Return the proof for a question that was agreed to; None if it holds no longer."""


class Planned(NamedTuple):
    """An approval that is not recorded yet; ``prev_hash`` is that of the head it is given at."""

    data: dict[str, Any]
    prev_hash: str
    actor: Actor
    occurred_at: str


#: An approval as it stands in the log, or as it would.
RecordedApproval = Planned | RecordedEvent


def as_of(event: RecordedEvent, at: str) -> Planned:
    """Return an approval of the log, given at the time ``at`` whatever its row says.

    What a row says of its time is its writer's to choose. The time that counts is the latest at
    which an event was recorded, up to this one: the log had come that far before it.
    """
    return Planned(event.data, event.prev_hash, event.actor, at)


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
        **({"also": amendment.also} if amendment.also else {}),
        **({"from_round": amendment.from_round} if amendment.from_round is not None else {}),
    }


def statement_of(
    state: Workflow, amendment: Amendment, impact: Impact, head: str, scripts: Mapping[str, str]
) -> bytes:
    """Return what is signed: canonical JSON of all that a proof is bound to.

    ``scripts`` are the files that the definition runs, each with its SHA-256 in hex.
    """
    return canonical({**_shown_of(state, amendment, impact, scripts), "head": head})


def _shown_of(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> dict[str, Any]:
    """Return all that a person is shown, and agrees to: the statement but for the head."""
    plan: dict[str, Any] = {}
    if amendment.is_plan:  # the definition, and who may agree later
        from lifecycle.rules.amendments import definition_of

        later: dict[str, Any] = {"purpose": state.purpose, "signers": state.signers}
        later |= {"mandates": state.mandates} if state.mandates else {}
        later |= {"rounds": state.rounds} if state.rounds else {}
        plan = {"plan": {**definition_of(state), **later}}
    return {
        "amendment": {**content_of(amendment), **plan},
        "form": FORM,
        "impact": impact.binding(),
        "policy": state.consent,
        "scripts": dict(scripts),
        "workflow": state.id,
    }


def shown_digest(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> str:
    """Return the digest by which all that was shown is known again: the amendment, its impact."""
    return digest(canonical(_shown_of(state, amendment, impact, scripts)))


def proof_of(statement: bytes, policy: str, **how: Any) -> dict[str, Any]:
    """Return a proof bound to a statement; ``how`` says how the person agreed."""
    form = json.loads(statement)["form"]
    return {"policy": policy, "form": form, "statement": digest(statement), **how}


def objection(state: Workflow, approval: RecordedApproval) -> str | None:
    """Return why an approval does not count in ``state``, None if it does."""
    data, proof = approval.data, approval.data.get("proof")
    amendment = state.amendments.get(str(data.get("amendment")))
    if amendment is None:
        return "there is no such amendment"
    if not amendment.is_open:
        return f"{amendment.id} is {amendment.status} already"
    wrong = missing(state, proof, BY_MANDATE)
    if wrong is not None:
        return wrong
    from lifecycle.rules.amendments import check_fits  # its rules are asked of an approval alone
    from lifecycle.rules.decide import payload_of

    try:
        payload_of("amendment.approved", data)
        if not amendment.is_plan:
            content = content_of(amendment)
            named = {"amendment": content.pop("id"), "kind": content.pop("type")}
            payload_of("amendment.proposed", {**content, **named})
        check_fits(state, amendment)
    except LifecycleError as error:
        return error.message
    impact = impact_of(state, amendment, data.get("kept"))
    if (data.get("version"), data.get("invalidated_stages")) != (
        version_after(state, amendment),
        list(impact.affected),
    ):
        return "its version or its list of affected stages is not what follows from the amendment"
    statement = agreed_to(state, amendment, approval)
    if data["proof"].get("statement") != digest(statement):
        return "its proof was given for another amendment, impact or head"
    return _given_by(state, amendment, impact, approval, statement)


def _given_by(
    state: Workflow,
    amendment: Amendment,
    impact: Impact,
    approval: RecordedApproval,
    statement: bytes,
) -> str | None:
    """Return why neither a person nor a mandate gave a consent that is bound to ``statement``."""
    proof = approval.data["proof"]
    if proof["policy"] != BY_MANDATE:
        return by_policy(state, approval, proof, statement)
    from lifecycle.rules.mandates import objections

    name, actor = str(proof.get("mandate")), approval.actor
    by = f"{actor.kind}:{actor.name}"
    if approval.data.get("approved_by") != f"{BY_MANDATE} {name}":
        return "it names another one than its mandate as who approved"
    why = objections(state, name, amendment, impact, by, approval.occurred_at)
    return f"it is not within the mandate {name}: {'; '.join(why)}" if why else None


def missing(state: Policy, proof: Any, *others: str) -> str | None:
    """Return why a value is no proof under the policy in force, or others; None if it is one."""
    if not isinstance(proof, dict) or not proof:
        return "it has no proof of consent"
    if proof.get("policy") not in (state.consent, *others):
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    return None


def agreed_to(state: Workflow, amendment: Amendment, approval: RecordedApproval) -> bytes:
    """Return the statement that an approval given in ``state`` must be of."""
    from lifecycle.rules.impact import binding_before

    data, head = approval.data, approval.prev_hash
    form, kept, scripts = data["proof"].get("form"), data.get("kept"), data.get("scripts", {})
    if form == FORM:
        impact = impact_of(state, amendment, kept)
        return statement_of(state, amendment, impact, head, scripts)
    said: dict[str, Any] = {"amendment": content_of(amendment), "head": head}
    said |= {"policy": state.consent, "workflow": state.id}
    if form == _THIRD:
        bound = impact_of(state, amendment, kept, stops_all=True).binding()
    else:
        bound = binding_before(state, amendment, kept)
    if form in (_SECOND, _THIRD):
        return canonical({**said, "form": form, "impact": bound, "scripts": scripts})
    return canonical({**said, "impact": digest(canonical(bound))})


def by_policy(
    state: Policy, approval: RecordedApproval, proof: Mapping[str, Any], statement: bytes
) -> str | None:
    """Return why a proof that is bound to ``statement`` does not count under the policy."""
    if state.consent == "terminal" and approval.actor.kind == "agent":
        return f"an agent ({approval.actor.name}) cannot agree"
    if state.consent != "signature":
        return None
    if state.has_new_signers and not proof.get("typed"):
        # A signature of one of them does not say who named them.
        return "no person at a terminal has agreed to the signers"
    from service.consent import signature  # it runs ssh-keygen

    signed, signer = proof.get("signature"), proof.get("signer")
    if not isinstance(signed, str) or not isinstance(signer, str):
        return "it has no signature"
    named = approval.data.get("approved_by")
    # A line names several with commas between.
    fields = [line.split()[0] for line in state.signers if line.strip()]
    names = {*fields, *(name for field in fields for name in field.split(","))}
    if named not in (signer, "user") or signer not in names:
        return f"it names {named!r:.80} as who approved, and its signature is by {signer!r:.80}"
    return signature.objection(statement, signed, signer, state.signers, approval.occurred_at)
