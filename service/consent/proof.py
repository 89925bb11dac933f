"""Consent: which approvals in a log are valid, no matter who wrote the row.

An approval is valid if its proof is one under the current policy, for this amendment, at this head,
with this impact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from eventstore.chain import canonical_json, sha256_hex
from eventstore.event import Actor, RecordedEvent
from lifecycle.errors import LifecycleError
from lifecycle.fold.evolve import BY_MANDATE, rule_of, version_after
from lifecycle.rules.impact import Impact, impact_of
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.mandates import RULE

if TYPE_CHECKING:
    from eventstore.store import EventStore

#: Version of the statements that are signed now. Statements of earlier versions stay valid.
#: Version 1 contained only a digest of the impact, and no files.
#: Version 2 did not stop running stages downstream.
#: Version 3 also stopped running stages when only the check of results changed.
FORM = 4
_THIRD, _SECOND = 3, 2
#: Policies under which the name of the person is the caller's claim.
CLAIMED = ("terminal", "trust")


class Policy(Protocol):
    """The consent policy of a workflow or a machine, with its lines of allowed signers."""

    consent: str
    signers: list[str]

    @property
    def has_new_signers(self) -> bool:
        """Return whether no person at a terminal has approved the signers yet."""
        ...


class Consenter(Protocol):
    """A person's agreement under one policy."""

    def ask(self, question: Any) -> bool:
        """Return whether the person agrees. Raises `NeedsConsent` if nobody can be asked."""

    def prove(self, question: Any) -> dict[str, Any] | None:
        """Return the proof for an approved question, or None if the question is out of date."""


class Planned(NamedTuple):
    """An approval that is not recorded yet. ``prev_hash`` is the hash of its head."""

    data: dict[str, Any]
    prev_hash: str
    actor: Actor
    occurred_at: str


#: An approval that is in the log, or that would be recorded.
RecordedApproval = Planned | RecordedEvent


def build_planned_approval(event: RecordedEvent, at: str) -> Planned:
    """Return a recorded approval as given at the time ``at``, whatever its row states.

    The writer of a row chooses the time in the row. The valid time is the latest recording time up
    to this event.
    """
    return Planned(event.data, event.prev_hash, event.actor, at)


def agreed_content(amendment: Amendment) -> dict[str, Any]:
    """Return the content of an amendment that a person approves, without later results."""
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


def build_statement(
    state: Workflow, amendment: Amendment, impact: Impact, head: str, scripts: Mapping[str, str]
) -> bytes:
    """Return the signed statement: canonical JSON of everything to which a proof is bound.

    ``scripts`` are the files that the definition runs, each with its SHA-256 in hex.
    """
    return canonical_json({**_build_shown_content(state, amendment, impact, scripts), "head": head})


def _build_shown_content(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything that a person sees and approves: the statement without the head."""
    plan: dict[str, Any] = {}
    if amendment.is_plan:  # the definition and the future approvers
        from lifecycle.rules.amendments import definition_of

        later: dict[str, Any] = {"purpose": state.purpose, "signers": state.signers}
        later |= {"mandates": state.mandates} if state.mandates else {}
        later |= {"rounds": state.rounds} if state.rounds else {}
        plan = {"plan": {**definition_of(state), **later}}
    return {
        "amendment": {**agreed_content(amendment), **plan},
        "form": FORM,
        "impact": impact.binding(),
        "policy": state.consent,
        "scripts": dict(scripts),
        "workflow": state.id,
    }


def shown_digest(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> str:
    """Return the digest of everything that was shown: the amendment and its impact."""
    return sha256_hex(canonical_json(_build_shown_content(state, amendment, impact, scripts)))


def build_proof(statement: bytes, policy: str, **how: Any) -> dict[str, Any]:
    """Return a proof bound to a statement. ``how`` states how the person agreed.

    Every proof records the version of the rules of mandates. After it, no approval by a mandate is
    judged by an earlier version.
    """
    form = json.loads(statement)["form"]
    known = {"policy": policy, "form": form, "statement": sha256_hex(statement)}
    return {**known, "mandate_rule": RULE, **how}


def build_consent_proof(
    consenter: Consenter, question: Any, store: EventStore
) -> dict[str, Any] | None:
    """Return the proof of a consent, or None if the question is out of date.

    Under a policy that believes the caller's name, the proof also names the database account, which
    the server checked.
    """
    proof = consenter.prove(question)
    if proof is None or proof["policy"] not in CLAIMED:
        return proof
    user = store.session_user()
    return proof if user is None else {**proof, "database_user": user}


def explain_invalid_approval(state: Workflow, approval: RecordedApproval) -> str | None:
    """Return why an approval is not valid in ``state``, None if it is."""
    data, proof = approval.data, approval.data.get("proof")
    amendment = state.amendments.get(str(data.get("amendment")))
    if amendment is None:
        return "the amendment does not exist"
    if not amendment.is_open:
        return f"{amendment.id} is already {amendment.status}"
    wrong = explain_unusable_proof(state, proof, BY_MANDATE)
    if wrong is not None:
        return wrong
    from lifecycle.rules.amendments import check_fits  # needed only for approvals
    from lifecycle.rules.decide import payload_of

    try:
        payload_of("amendment.approved", data)
        if not amendment.is_plan:
            content = agreed_content(amendment)
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
        return "the version or the list of affected stages does not match the amendment"
    statement, what = rebuild_statement(state, amendment, approval), "amendment, impact"
    if data["proof"]["policy"] != BY_MANDATE:
        return judge_proof(state, approval, statement, what)
    unbound = _explain_unbound_proof(data["proof"], statement, what)
    return unbound or _explain_mandate_violation(state, amendment, impact, approval)


def judge_proof(
    state: Policy, approval: RecordedApproval, statement: bytes, what: str
) -> str | None:
    """Return why a proof does not show a person's approval of ``statement``, None if it does.

    Every decision of a person is judged here; ``what`` names the subject of the statement.
    """
    proof = approval.data["proof"]
    return _explain_unbound_proof(proof, statement, what) or _explain_policy_violation(
        state, approval, proof, statement
    )


def _explain_unbound_proof(proof: Mapping[str, Any], statement: bytes, what: str) -> str | None:
    """Return why a proof belongs to another statement, None if it matches."""
    is_bound = proof.get("statement") == sha256_hex(statement)
    return None if is_bound else f"the proof was given for another {what} or head"


def _explain_mandate_violation(
    state: Workflow, amendment: Amendment, impact: Impact, approval: RecordedApproval
) -> str | None:
    """Return why the mandate in the proof does not cover the amendment, None if it does."""
    proof = approval.data["proof"]
    from lifecycle.rules.mandates import list_objections

    name, actor = str(proof.get("mandate")), approval.actor
    by = f"{actor.kind}:{actor.name}"
    if approval.data.get("approved_by") != f"{BY_MANDATE} {name}":
        return "approved_by does not name the mandate"
    rule, least = rule_of(proof), max(1, *(a.mandate_rule for a in state.amendments.values()))
    if not least <= rule <= RULE:
        return (
            f"the approval uses version {rule} of the rules of mandates; expected "
            f"{max(least, RULE)}"
        )
    why = list_objections(state, name, amendment, impact, by, approval.occurred_at, rule)
    return f"the amendment is not within the mandate {name}: {'; '.join(why)}" if why else None


def explain_unusable_proof(state: Policy, proof: Any, *others: str) -> str | None:
    """Return why a value is no proof under the current or other policies, or None if it is one."""
    if not isinstance(proof, dict) or not proof:
        return "the approval has no proof of consent"
    if proof.get("policy") not in (state.consent, *others):
        return (
            f"the proof is for the policy {proof.get('policy')}, but the current policy is "
            f"{state.consent}"
        )
    return None


def rebuild_statement(state: Workflow, amendment: Amendment, approval: RecordedApproval) -> bytes:
    """Return the statement that an approval given in ``state`` must match."""
    from lifecycle.rules.impact import earlier_binding

    data, head = approval.data, approval.prev_hash
    form, kept, scripts = data["proof"].get("form"), data.get("kept"), data.get("scripts", {})
    if form == FORM:
        impact = impact_of(state, amendment, kept)
        return build_statement(state, amendment, impact, head, scripts)
    said: dict[str, Any] = {"amendment": agreed_content(amendment), "head": head}
    said |= {"policy": state.consent, "workflow": state.id}
    if form == _THIRD:
        bound = impact_of(state, amendment, kept, stops_all=True).binding()
    else:
        bound = earlier_binding(state, amendment, kept)
    if form in (_SECOND, _THIRD):
        return canonical_json({**said, "form": form, "impact": bound, "scripts": scripts})
    return canonical_json({**said, "impact": sha256_hex(canonical_json(bound))})


def _explain_policy_violation(
    state: Policy, approval: RecordedApproval, proof: Mapping[str, Any], statement: bytes
) -> str | None:
    """Return why a proof bound to ``statement`` is not valid under the policy, None if it is."""
    if state.consent == "terminal" and approval.actor.kind == "agent":
        return f"an agent ({approval.actor.name}) cannot approve"
    if state.consent != "signature":
        return None
    if state.has_new_signers and not proof.get("typed"):
        # A signature of a new signer does not prove who named the signer.
        return "no person at a terminal has approved the signers"
    from service.consent import signature  # runs ssh-keygen

    signed, signer = proof.get("signature"), proof.get("signer")
    if not isinstance(signed, str) or not isinstance(signer, str):
        return "the approval has no signature"
    named = approval.data.get("approved_by")
    # A line names several signers, separated by commas.
    fields = [line.split()[0] for line in state.signers if line.strip()]
    names = {*fields, *(name for field in fields for name in field.split(","))}
    if named not in (signer, "user") or signer not in names:
        return f"approved_by is {named!r:.80}, but the signature is by {signer!r:.80}"
    return signature.explain_invalid_signature(
        statement, signed, signer, state.signers, approval.occurred_at
    )
