"""What weakens the consent to changes, in words: told wherever somebody looks or goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.state.status import Status
from service.consent.approvals import Approvals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.state.workflow import Workflow


def doubts_of(approvals: Approvals, state: Workflow) -> list[str]:
    """Return what weakens the consent, whatever the policy; empty where nothing does."""
    return [*_of_policy(approvals, state), *of_pins(approvals), *_of_scripts(approvals, state)]


def _of_scripts(approvals: Approvals, state: Workflow) -> Iterator[str]:
    """Say which files that the definition runs are others than those that were recorded."""
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


def _of_policy(approvals: Approvals, state: Workflow) -> list[str]:
    if state.consent == "trust":
        plan = "" if state.is_plan_agreed else "nobody agreed to the plan, and "
        anyone = "whoever calls wfctl can approve an amendment, agents too"
        return [f"consent is by trust: {plan}{anyone}"]
    if state.consent == "signature" and not approvals.is_pinned():
        return ["this login has not pinned this log; its first event is taken on trust"]
    return []


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
