"""``wfctl pin``: list and change the pins of logs."""

from __future__ import annotations

from typing import Any

from cli.frame.consent import ask_at_terminal
from cli.frame.context import Context
from cli.frame.options import option
from cli.frame.workspace import OpenedWorkflow, open_for_reading, settings_of
from cli.settings import actor_of
from lifecycle.errors import NeedsConsent
from service.consent.approvals import Approvals
from service.consent.proof import Policy
from service.reading.trust_marks import SALVAGED, TamperEvidence, accept_log, find_tamper_evidence


def pin(
    context: Context,
    replace: bool = option(
        "Pin the current logs of this folder, so that wfctl reports if somebody "
        "replaces a log. You confirm this at a terminal."
    ),
) -> None:
    """Show the pinned logs, which nobody can replace unnoticed.

    A pin is a record, outside the workflow's folder, that identifies a log. With a pin, wfctl
    detects that somebody replaced the log.
    """
    from service.reading.machine_streams import list_machines_in_store

    with open_for_reading(context) as workflow:
        logs: list[tuple[Approvals, Policy]] = []
        if workflow.config.workflow is not None:
            logs.append((workflow.log.approvals, workflow.state()))
        machines = map(workflow.machine, list_machines_in_store(workflow.log.store))
        logs += [(log.approvals, log.current()) for log in machines]
        if replace:
            _repin_logs(context, workflow, logs)
        found = [_describe_pin(workflow, approvals) for approvals, _ in logs]
        text = "\n".join(f"{one['log']}: {one['says']}" for one in found)
        workflow.output.result(found, lambda: text or "no logs here")


def _describe_pin(workflow: OpenedWorkflow, approvals: Approvals) -> dict[str, Any]:
    pinned = "pinned" if approvals.is_pinned() else "not pinned by this user account"
    marks = [str(one.to_item()) for one in _list_marks(workflow, approvals)]
    return {
        "log": approvals.stream,
        "first": approvals.first_hash(),
        "pinned": [pin.first for pin in approvals.pinned_here()],
        "says": "; ".join([approvals.pin_objection() or pinned, *marks]),
    }


def _list_marks(workflow: OpenedWorkflow, approvals: Approvals) -> list[TamperEvidence]:
    marks = find_tamper_evidence(workflow.root, approvals.store, approvals.stream)
    return [one for one in marks if one.kind != SALVAGED]


def _repin_logs(
    context: Context, workflow: OpenedWorkflow, logs: list[tuple[Approvals, Policy]]
) -> None:
    changed = [
        (a, state)
        for a, state in logs
        if a.pin_objection() or not a.is_pinned() or _list_marks(workflow, a)
    ]
    if not changed:
        return
    lines = [
        f"{a.stream}: {_describe_pin(workflow, a)['says']}\n  first event {a.first_hash()}, "
        f"consent by {state.consent}, "
        f"pinned here: {', '.join(p.first for p in a.pinned_here()) or 'nothing'}"
        for a, state in changed
    ]
    lines.append("wfctl will accept these logs and their approvals from now on.")
    actor, text = actor_of(settings_of(context)), "\n".join(lines)
    if not ask_at_terminal(actor, "the pin of this root", text, "wfctl pin --replace"):
        raise NeedsConsent("the pins were not changed, because you answered n.")
    for approvals, state in changed:
        approvals.repin(state)
        accept_log(workflow.root, approvals.store, approvals.stream)
