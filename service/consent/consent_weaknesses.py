"""Find weaknesses in the consent of a workflow, and check the proofs of decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from eventstore.chain import canonical_json
from lifecycle.words.scripts import OUTSIDE
from service.consent import proof as consent
from service.consent.approvals import Approvals

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow


def list_consent_weaknesses(approvals: Approvals, state: Workflow) -> list[str]:
    """Return a sentence for each weakness of the consent to the plan and its changes."""
    told: list[str] = []
    if state.consent == "trust":
        plan = "" if state.is_plan_agreed else "nobody approved the plan, and "
        anyone = "anyone, also an agent, can approve amendments"
        told = [f"the consent policy is trust: {plan}{anyone}"]
    elif state.consent == "signature" and not approvals.is_pinned():
        told = ["this user account has not pinned this log, so its first event is not verified"]
    return [*told, *list_pin_contradictions(approvals), *_describe_outside_scripts(state)]


def _describe_outside_scripts(state: Workflow) -> list[str]:
    outside = [path for path, one in state.scripts.items() if one == OUTSIDE]
    return [f"{', '.join(outside)}: {OUTSIDE}, because it is outside the root"] if outside else []


def list_pin_contradictions(approvals: Approvals) -> list[str]:
    """Return a sentence for each contradiction between the log and this account's pins.

    A pin is a record outside the log that the user account knows the log.
    """
    why = approvals.pin_objection()
    if why is not None:
        remedy = "if this log is the right one, a person runs `wfctl pin --replace`"
        return [f"no approval is valid: {why}. See `wfctl audit bypasses`; {remedy}"]
    elsewhere = approvals.find_same_id_folder()
    if elsewhere is not None:
        return [f"this user account pinned another log with the same id, in {elsewhere}"]
    return []


#: Version of the statement format.
_FORM = 1
_OVERRULED = "claim.overruled"
#: Event type → the fields that a person approves. The id, the consent policy and the head of the
#: log are always included.
_SIGNED = {
    _OVERRULED: ("stage", "attempt", "claim", "verdict", "reason"),
    "audit.agreed": ("entry", "kind", "subject", "text", "reason"),
    "results.adopted": ("stage", "outputs", "reason"),
    "drift.reverted": ("file", "detected", "kept_as"),
    "stage.retried": ("stage", "fix", "failed_only"),
    "machine.limited": ("loop", "before", "to", "reason"),
}


class DecisionState(consent.Policy, Protocol):
    """A workflow or machine that a decision concerns. ``head`` is its version."""

    id: str
    head: int


def statement_of(state: DecisionState, type_: str, data: Mapping[str, Any], head: str) -> bytes:
    """Return the statement that a person approves or signs, as canonical JSON.

    ``head`` is the hash of the event before the decision.
    """
    said = {name: data[name] for name in _SIGNED[type_]}
    known = {"form": _FORM, "head": head, "policy": state.consent, "workflow": state.id}
    if type_ == _OVERRULED:
        return canonical_json({**known, "claim": said})
    return canonical_json({**known, "decision": said, "type": type_})


def explain_invalid_decision(
    state: DecisionState, type_: str, event: consent.RecordedApproval
) -> str | None:
    """Return the reason why the proof of a decision is invalid, or None if it is valid."""
    wrong = consent.explain_unusable_proof(state, event.data.get("proof"))
    if wrong is not None:
        return wrong
    statement = statement_of(state, type_, event.data, event.prev_hash)
    return consent.explain_insufficient_proof(state, event, statement, "decision")
