"""What weakens the consent to changes, in words: told wherever somebody looks or goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from eventstore.chain import canonical, digest
from lifecycle.state.status import Status
from service.consent import proof as consent
from service.consent.approvals import Approvals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.state.workflow import Workflow


def doubts_of(approvals: Approvals, state: Workflow) -> list[str]:
    """Return what weakens the consent, whatever the policy; empty if nothing does."""
    told: list[str] = []
    if state.consent == "trust":
        plan = "" if state.is_plan_agreed else "nobody agreed to the plan, and "
        anyone = "anyone who calls wfctl can approve an amendment, agents too"
        told = [f"consent is by trust: {plan}{anyone}"]
    elif state.consent == "signature" and not approvals.is_pinned():
        told = ["this login has not pinned this log; its first event is taken on trust"]
    return [*told, *of_pins(approvals), *_of_scripts(approvals, state)]


def _of_scripts(approvals: Approvals, state: Workflow) -> Iterator[str]:
    root = approvals.root
    # An approval holds them all anew; before the first one they are those of the beginning.
    approved = any(one.version and one.record is None for one in state.amendments.values())
    when = "a person last approved a change" if approved else "the workflow began"
    records = {when: state.scripts}
    for stage in state.stages.values():
        if stage.source is not None and stage.status is Status.COMPLETED:
            records[f"{stage.id} {stage.source.id} started"] = stage.source.scripts
    known = [(when, recorded) for when, recorded in records.items() if recorded]
    if root is None or not known:
        return
    from service.consent.scripts import changed, left_by_jobs  # a log without scripts pays nothing

    made = left_by_jobs(state)
    for when, recorded in known:
        found = changed(root, recorded)
        others = [path for path, now in found.items() if now and (path, now) not in made]
        gone = [path for path, now in found.items() if now is None]
        if others:
            yield f"{', '.join(others)}: not what it was when {when}"
        if gone:
            yield f"{', '.join(gone)}: missing, and there when {when}"


def of_pins(approvals: Approvals) -> list[str]:
    """Return what this login knows of the root, or of the name, that speaks against the log."""
    why = approvals.pin_objection()
    if why is not None:
        remedy = "where it is as it should be, a person runs `wfctl pin --replace`"
        return [f"no approval counts: {why}. `wfctl audit bypasses` says more; {remedy}"]
    elsewhere = approvals.namesake()
    if elsewhere is not None:
        return [f"this login pinned another log of this id in {elsewhere}; this one is new to it"]
    return []


#: The form of the statement; another one would be recorded with the decisions that it is of.
_FORM = 1
_OVERRULED = "claim.overruled"
#: Event type → what is agreed to, beside the workflow or machine, its policy and the head.
_SIGNED = {
    _OVERRULED: ("stage", "attempt", "claim", "verdict", "reason"),
    "results.adopted": ("stage", "outputs", "reason"),
    "drift.reverted": ("file", "detected", "kept_as"),
    "stage.retried": ("stage", "fix", "failed_only"),
    "machine.limited": ("loop", "before", "to", "reason"),
}


class Decided(consent.Policy, Protocol):
    """The workflow or the machine that is decided about."""

    id: str


def statement_of(state: Decided, type_: str, data: Mapping[str, Any], head: str) -> bytes:
    """Return what is agreed to of a decision at the hash of a head, as canonical JSON."""
    said = {name: data[name] for name in _SIGNED[type_]}
    known = {"form": _FORM, "head": head, "policy": state.consent, "workflow": state.id}
    if type_ == _OVERRULED:
        return canonical({**known, "claim": said})
    return canonical({**known, "decision": said, "type": type_})


def objection(state: Decided, type_: str, event: consent.RecordedApproval) -> str | None:
    """Return why the proof of a recorded decision does not hold, None if it does."""
    proof: Any = event.data.get("proof")
    wrong = consent.missing(state, proof)
    if wrong is not None:
        return wrong
    statement = statement_of(state, type_, event.data, event.prev_hash)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another decision or head"
    return consent.by_policy(state, event, proof, statement)
