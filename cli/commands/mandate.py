"""``wfctl mandate …``: what a person allows beforehand, within bounds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.frame.options import AgreeingKey, AsOf, Why, Writes, argument
from cli.frame.workspace import reading
from projections.words.mandates import standings

Name = Annotated[str, argument("NAME", "Name of the mandate, for example sampling.")]


def list_(context: typer.Context, view: AsOf = None) -> None:
    """List the mandates in force and what is left of each."""
    with reading(context) as workflow:
        state = workflow.state(view)
        found = standings(state)
        workflow.output.result(
            [one.to_dict() for one in found],
            lambda: "\n".join(map(str, found)) or "no mandates",
            state=state,
        )


def grant(
    context: typer.Context,
    options: Writes,
    name: Name,
    source: Annotated[str, argument("FILE", "Mandate in JSON, YAML or TOML; - reads stdin.")],
    reason: Why = None,
    key: AgreeingKey = None,
) -> None:
    """Allow changes in advance, or change the limits, as a person."""
    from service.documents.plan_file import read_plan

    _decided(context, options, name, {"new": read_plan(source)}, reason, key)


def revoke(
    context: typer.Context, options: Writes, name: Name, reason: Why = None, key: AgreeingKey = None
) -> None:
    """Revoke a mandate as a person."""
    _decided(context, options, name, {}, reason, key)


def _decided(
    context: typer.Context,
    options: Any,
    name: str,
    leaf: dict[str, Any],
    reason: str | None,
    key: Any,
) -> None:
    """Propose the change of a mandate, and ask the person at once."""
    from cli.commands.amend import decide
    from cli.frame.consent import consenter_of
    from cli.frame.workspace import engine
    from lifecycle.payload import models as p
    from lifecycle.words.mandates import MANDATES

    verb = "grant" if leaf else "revoke"
    with engine(context, options.dry_run) as (jobs, output):
        service = jobs.service
        consenter = consenter_of(service.state().consent, service.actor, key, None)
        command = p.AmendmentProposed(
            kind="parameter_change",
            description=f"{verb} the mandate {name}",
            reason=reason or f"{verb} {name}",
            changes={MANDATES: {name: leaf}},
        )
        proposed = service.handle(command, options=options)
        decide(jobs, output, proposed, consenter, options)
