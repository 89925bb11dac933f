"""Decide which approvals in a log are valid, no matter who wrote them to the database.

An approval is valid if its proof fits the current consent policy, this amendment (change of the
plan), this position in the log, and this impact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from eventstore.chain import canonical_json, sha256_hex
from eventstore.event import Actor, RecordedEvent
from lifecycle.errors import LifecycleError
from lifecycle.fold.evolve import (
    BY_MANDATE,
    parse_mandate_rule_version,
    plan_version_after_approval,
)
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.mandates import RULE

if TYPE_CHECKING:
    from eventstore.store import EventStore
    from lifecycle.rules.impact import Impact

#: Version of the format of new statements. Statements in earlier formats stay valid. Version 1
#: contained only a digest of the impact, and no files. Version 2 did not stop running stages
#: downstream. Version 3 also stopped running stages when only the check of results changed.
FORM = 4
_THIRD, _SECOND = 3, 2
#: Consent policies under which wfctl cannot verify the name of the person.
CLAIMED = ("terminal", "trust")


class Policy(Protocol):
    """The consent policy of a workflow or machine, with its allowed signers."""

    consent: str
    signers: list[str]

    @property
    def has_new_signers(self) -> bool:
        """Return whether a person at a terminal still has to approve the list of signers."""
        ...


class Consenter(Protocol):
    """Asks a person for consent under a consent policy, and returns the proof."""

    def ask(self, question: Any) -> bool:
        """Return whether the person agrees. Raises `NeedsConsent` if nobody can be asked."""

    def prove(self, question: Any) -> dict[str, Any] | None:
        """Return the proof of consent, or None if the question has changed meanwhile."""


class PlannedApproval(NamedTuple):
    """An approval that is not in the log yet. ``prev_hash`` is the hash of the last event."""

    data: dict[str, Any]
    prev_hash: str
    actor: Actor
    occurred_at: str


#: An approval in the log, or an approval that is about to be recorded.
RecordedApproval = PlannedApproval | RecordedEvent


def build_planned_approval(event: RecordedEvent, at: str) -> PlannedApproval:
    """Return a recorded approval with ``at`` as its time, instead of the time in its row.

    The time in the row cannot be trusted, because the writer of the row chooses it. The caller
    gives the latest recording time of all events up to this one.
    """
    return PlannedApproval(event.data, event.prev_hash, event.actor, at)


def agreed_content(amendment: Amendment) -> dict[str, Any]:
    """Return the content of an amendment that a person approves.

    Fields that wfctl adds after the proposal are left out.
    """
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
    """Return the statement that a person approves or signs, as canonical JSON.

    It contains everything that the proof must cover. ``head`` is the hash of the last event.
    ``scripts`` are the files that the plan runs, each with its SHA-256.
    """
    return canonical_json({**_build_shown_content(state, amendment, impact, scripts), "head": head})


def _build_shown_content(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything that a person sees before approving, without the hash of the log."""
    plan: dict[str, Any] = {}
    if amendment.is_plan:  # the definition and the future approvers
        from lifecycle.rules.amendments import build_definition_to_approve

        later: dict[str, Any] = {"purpose": state.purpose, "signers": state.signers}
        later |= {"mandates": state.mandates} if state.mandates else {}
        later |= {"rounds": state.rounds} if state.rounds else {}
        later |= {"parameters": state.parameters} if state.parameters else {}
        plan = {"plan": {**build_definition_to_approve(state), **later}}
    return {
        "amendment": {**agreed_content(amendment), **plan},
        "form": FORM,
        "impact": impact.effects_to_approve(),
        "policy": state.consent,
        "scripts": dict(scripts),
        "workflow": state.id,
    }


def shown_content_digest(
    state: Workflow, amendment: Amendment, impact: Impact, scripts: Mapping[str, str]
) -> str:
    """Return the digest of everything that a person sees before approving."""
    return sha256_hex(canonical_json(_build_shown_content(state, amendment, impact, scripts)))


def build_proof(statement: bytes, policy: str, **how: Any) -> dict[str, Any]:
    """Return the proof of consent for a statement.

    ``how`` describes how the person agreed. The proof contains the current version of the rules for
    mandates (permissions given in advance). Later approvals by a mandate are never checked by an
    earlier version of these rules.
    """
    form = json.loads(statement)["form"]
    known = {"policy": policy, "form": form, "statement": sha256_hex(statement)}
    return {**known, "mandate_rule": RULE, **how}


def build_consent_proof(
    consenter: Consenter, question: Any, store: EventStore
) -> dict[str, Any] | None:
    """Return the proof of a person's consent, or None if the question has changed.

    If the consent policy does not verify the person's name, the proof also contains the name of the
    database account, which the database server verified.
    """
    proof = consenter.prove(question)
    if proof is None or proof["policy"] not in CLAIMED:
        return proof
    user = store.session_user()
    return proof if user is None else {**proof, "database_user": user}


def explain_invalid_approval(state: Workflow, approval: RecordedApproval) -> str | None:
    """Return the reason why an approval is invalid in this state, or None if it is valid."""
    data, proof = approval.data, approval.data.get("proof")
    amendment = state.amendments.get(str(data.get("amendment")))
    if amendment is None:
        return "the amendment does not exist"
    if not amendment.is_open:
        return f"{amendment.id} is already {amendment.status}"
    wrong = explain_unusable_proof(state, proof, BY_MANDATE)
    if wrong is not None:
        return wrong
    from lifecycle.payload.build_payload import payload_of

    # These modules are needed only for approvals.
    from lifecycle.rules.amendments import check_amendment_still_applies
    from lifecycle.rules.impact import compute_approval_impact

    try:
        payload_of("amendment.approved", data)
        if not amendment.is_plan:
            content = agreed_content(amendment)
            named = {"amendment": content.pop("id"), "kind": content.pop("type")}
            payload_of("amendment.proposed", {**content, **named})
        check_amendment_still_applies(state, amendment)
    except LifecycleError as error:
        return error.message
    impact = compute_approval_impact(state, amendment, data.get("kept"))
    if (data.get("version"), data.get("invalidated_stages")) != (
        plan_version_after_approval(state, amendment),
        list(impact.affected),
    ):
        return "the version or the list of affected stages does not match the amendment"
    statement, what = rebuild_statement(state, amendment, approval), "amendment, impact"
    if data["proof"]["policy"] != BY_MANDATE:
        return explain_insufficient_proof(state, approval, statement, what)
    unbound = _explain_unbound_proof(data["proof"], statement, what)
    return unbound or _explain_mandate_violation(state, amendment, impact, approval)


def explain_insufficient_proof(
    state: Policy, approval: RecordedApproval, statement: bytes, what: str
) -> str | None:
    """Return the reason why a proof does not show a person's consent, or None if it does.

    ``statement`` is what the person approved, and ``what`` describes its subject for the message.
    All decisions of persons are checked here.
    """
    proof = approval.data["proof"]
    return _explain_unbound_proof(proof, statement, what) or _explain_policy_violation(
        state, approval, proof, statement
    )


def _explain_unbound_proof(proof: Mapping[str, Any], statement: bytes, what: str) -> str | None:
    """Return the reason why a proof does not belong to the statement, or None if it does."""
    is_bound = proof.get("statement") == sha256_hex(statement)
    return None if is_bound else f"the proof was given for another {what} or head"


def _explain_mandate_violation(
    state: Workflow, amendment: Amendment, impact: Impact, approval: RecordedApproval
) -> str | None:
    """Return the reason why a mandate does not allow the amendment, or None if it does.

    The proof of the approval names the mandate (permission given in advance).
    """
    proof = approval.data["proof"]
    from lifecycle.rules.mandates import list_objections

    name, actor = str(proof.get("mandate")), approval.actor
    by = f"{actor.kind}:{actor.name}"
    if approval.data.get("approved_by") != f"{BY_MANDATE} {name}":
        return "approved_by does not name the mandate"
    rule, least = (
        parse_mandate_rule_version(proof),
        max(1, *(a.mandate_rule for a in state.amendments.values())),
    )
    if not least <= rule <= RULE:
        return (
            f"the approval uses version {rule} of the rules of mandates; expected "
            f"{max(least, RULE)}"
        )
    why = list_objections(state, name, amendment, impact, by, approval.occurred_at, rule)
    return f"the amendment is not within the mandate {name}: {'; '.join(why)}" if why else None


def explain_unusable_proof(state: Policy, proof: Any, *others: str) -> str | None:
    """Return the reason why a value cannot be a proof of consent, or None if it can.

    The proof must be for the current consent policy or one of ``others``.
    """
    if not isinstance(proof, dict) or not proof:
        return "the approval has no proof of consent"
    if proof.get("policy") not in (state.consent, *others):
        return (
            f"the proof is for the policy {proof.get('policy')}, but the current policy is "
            f"{state.consent}"
        )
    return None


def rebuild_statement(state: Workflow, amendment: Amendment, approval: RecordedApproval) -> bytes:
    """Return the statement that a recorded approval must cover to be valid.

    It is built from the state before the approval, in the format version that the proof names.
    """
    from lifecycle.rules.impact import compute_approval_impact, impact_shown_by_earlier_versions

    data, head = approval.data, approval.prev_hash
    form, kept, scripts = data["proof"].get("form"), data.get("kept"), data.get("scripts", {})
    if form == FORM:
        impact = compute_approval_impact(state, amendment, kept)
        return build_statement(state, amendment, impact, head, scripts)
    said: dict[str, Any] = {"amendment": agreed_content(amendment), "head": head}
    said |= {"policy": state.consent, "workflow": state.id}
    if form == _THIRD:
        bound = compute_approval_impact(state, amendment, kept, stops_all=True).effects_to_approve()
    else:
        bound = impact_shown_by_earlier_versions(state, amendment, kept)
    if form in (_SECOND, _THIRD):
        return canonical_json({**said, "form": form, "impact": bound, "scripts": scripts})
    return canonical_json({**said, "impact": sha256_hex(canonical_json(bound))})


def _explain_policy_violation(
    state: Policy, approval: RecordedApproval, proof: Mapping[str, Any], statement: bytes
) -> str | None:
    """Return the reason why a proof violates the consent policy, or None if it does not."""
    if state.consent == "terminal" and approval.actor.kind == "agent":
        return f"an agent ({approval.actor.name}) cannot approve"
    if state.consent != "signature":
        return None
    if state.has_new_signers and not proof.get("typed"):
        # If nobody has approved the new signers, a signature is not sufficient: an agent may have
        # added its own key to the list.
        return "no person at a terminal has approved the signers"
    from service.consent import signature  # runs ssh-keygen

    signed, signer = proof.get("signature"), proof.get("signer")
    if not isinstance(signed, str) or not isinstance(signer, str):
        return "the approval has no signature"
    named = approval.data.get("approved_by")
    # A line of the allowed-signers file can name several signers, separated by commas.
    fields = [line.split()[0] for line in state.signers if line.strip()]
    names = {*fields, *(name for field in fields for name in field.split(","))}
    if named not in (signer, "user") or signer not in names:
        return f"approved_by is {named!r:.80}, but the signature is by {signer!r:.80}"
    return signature.explain_invalid_signature(
        statement, signed, signer, state.signers, approval.occurred_at
    )
