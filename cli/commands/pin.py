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
            _replace(context, logs)
        found = [_described(approvals) for approvals, _ in logs]
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


def _described(approvals: Approvals) -> dict[str, Any]:
    objection = approvals.pin_objection()
    here = approvals.pinned_here()
    says = objection or ("pinned" if approvals.is_pinned() else "not pinned by this login")
    return {
        "log": approvals.stream,
        "first": approvals.first_hash(),
        "pinned": [pin.first for pin in here],
        "says": says,
    }


def _replace(context: typer.Context, logs: list[tuple[Approvals, Policy]]) -> None:
    changed = [(a, state) for a, state in logs if a.pin_objection() or not a.is_pinned()]
    if not changed:
        return
    lines = [
        f"{a.stream}: {_described(a)['says']}\n  first event {a.first_hash()}, consent by "
        f"{state.consent}, pinned here: {', '.join(p.first for p in a.pinned_here()) or 'nothing'}"
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
