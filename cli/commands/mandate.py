"""``wfctl mandate …``: allow changes of the plan in advance, within limits."""

from __future__ import annotations

from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.options import AgreeingKey, AsOf, Why, Writes, argument
from cli.frame.workspace import open_for_reading
from projections.words.mandates import list_mandates

Name = Annotated[
    str,
    argument(
        "NAME", "The name of the mandate (an approval given in advance), for example sampling."
    ),
]


def list_(context: Context, view: AsOf = None) -> None:
    """List the current mandates and their remaining limits.

    A mandate is an approval given in advance. It allows certain changes of the plan, within limits.
    """
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        found = list_mandates(state)
        workflow.output.result(
            [one.to_dict() for one in found],
            lambda: "\n".join(map(str, found)) or "no mandates",
            state=state,
        )


def grant(
    context: Context,
    options: Writes,
    name: Name,
    source: Annotated[
        str,
        argument(
            "FILE",
            "The JSON, YAML or TOML file that describes the mandate (changes allowed in "
            "advance), or - for stdin.",
        ),
    ],
    reason: Why = None,
    key: AgreeingKey = None,
) -> None:
    """Grant a mandate, or change the limits of a mandate.

    A mandate is an approval given in advance. It allows certain changes of the plan, within limits.
    Only a person can grant a mandate.
    """
    from service.documents.plan_file import read_plan

    _change_mandate(context, options, name, {"new": read_plan(source)}, reason, key)


def revoke(
    context: Context, options: Writes, name: Name, reason: Why = None, key: AgreeingKey = None
) -> None:
    """Revoke a mandate (an approval given in advance).

    Only a person can do this.
    """
    _change_mandate(context, options, name, {}, reason, key)


def _change_mandate(
    context: Context,
    options: Any,
    name: str,
    leaf: dict[str, Any],
    reason: str | None,
    key: Any,
) -> None:
    """Propose a change of a mandate, and ask a person to approve the change.

    A mandate is a permission given in advance. An empty ``leaf`` revokes the mandate. If the person
    does not consent, reject the proposal.
    """
    from cli.commands.amend import ask_to_approve_proposal
    from cli.frame.consent import Wording, consenter_of
    from cli.frame.workspace import open_job_runner
    from lifecycle.payload import models as p
    from lifecycle.words.mandates import MANDATES

    verb = "grant" if leaf else "revoke"
    with open_job_runner(context, options.dry_run) as (jobs, output):
        service = jobs.service
        wording = Wording(approve=f"wfctl mandate {verb} {name}{' FILE' if leaf else ''}")
        consenter = consenter_of(service.state().consent, service.actor, key, None, wording)
        command = p.AmendmentProposed(
            kind="parameter_change",
            description=f"{verb} the mandate {name}",
            reason=reason or f"{verb} {name}",
            changes={MANDATES: {name: leaf}},
        )
        proposed = service.handle(command, options=options)
        ask_to_approve_proposal(jobs, output, proposed, consenter, options, closes=True)
