"""``wfctl pin``: what this login knows of the logs in a root, and who may change that."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.frame.consent import asked_at_terminal
from cli.frame.workspace import Reading, reading, settings_of
from cli.settings import actor_of
from lifecycle.errors import NeedsConsent
from service.consent.approvals import Approvals
from service.consent.proof import Policy
from service.reading.trust_marks import SALVAGED, TrustMark, agree, marks_of


def pin(
    context: typer.Context,
    replace: Annotated[
        bool, typer.Option("--replace", help="Pin the logs as they are now; asks a person.")
    ] = False,
) -> None:
    """What this login pinned of the logs in this root, outside of it."""
    with reading(context) as workflow:
        logs = _logs(workflow)
        if replace:
            _replace(context, workflow, logs)
        found = [_described(workflow, approvals) for approvals, _ in logs]
        text = "\n".join(f"{one['log']}: {one['says']}" for one in found)
        workflow.output.result(found, lambda: text or "no logs here")


def _logs(workflow: Reading) -> list[tuple[Approvals, Policy]]:
    from service.machines.log import MachineLog, machines_in  # loads the models of definitions

    found: list[tuple[Approvals, Policy]] = []
    if workflow.config.workflow is not None:
        found.append((workflow.log.approvals, workflow.state()))
    for machine in machines_in(workflow.log.store):
        log = MachineLog(workflow.log.store, machine, workflow.root.path)
        approvals = Approvals(log.store, log.stream, workflow.root.path)
        found.append((approvals, log.current()))
    return found


def _described(workflow: Reading, approvals: Approvals) -> dict[str, Any]:
    objection = approvals.pin_objection()
    marks = [str(one.to_item()) for one in _against(workflow, approvals)]
    here = approvals.pinned_here()
    pinned = "pinned" if approvals.is_pinned() else "not pinned by this login"
    says = "; ".join([objection or pinned, *marks])
    return {
        "log": approvals.stream,
        "first": approvals.first_hash(),
        "pinned": [pin.first for pin in here],
        "says": says,
    }


def _against(workflow: Reading, approvals: Approvals) -> list[TrustMark]:
    """Return what a person may declare to be well."""
    marks = marks_of(workflow.root, approvals.store, approvals.stream)
    return [one for one in marks if one.kind != SALVAGED]


def _replace(
    context: typer.Context, workflow: Reading, logs: list[tuple[Approvals, Policy]]
) -> None:
    changed = [
        (a, state)
        for a, state in logs
        if a.pin_objection() or not a.is_pinned() or _against(workflow, a)
    ]
    if not changed:
        return
    lines = [
        f"{a.stream}: {_described(workflow, a)['says']}\n  first event {a.first_hash()}, "
        f"consent by {state.consent}, "
        f"pinned here: {', '.join(p.first for p in a.pinned_here()) or 'nothing'}"
        for a, state in changed
    ]
    text = "\n".join(
        [*lines, "From now on these logs are taken for the right ones, with their approvals."]
    )
    actor = actor_of(settings_of(context))
    if not asked_at_terminal(actor, "the pin of this root", text, "wfctl pin --replace"):
        raise NeedsConsent("the pins stay as they are: n was typed.")
    for approvals, state in changed:
        approvals.repin(state)
        agree(workflow.root, approvals.store, approvals.stream)
