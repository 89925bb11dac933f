"""``wfctl plan``: a plan looked at before anything is made of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.frame.workspace import settings_of
from cli.terminal.output import Output


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="A plan, before a workflow is made of it.", no_args_is_help=True)
    # Without a callback a group of one command is that command.
    group.callback()(_together)
    group.command("check")(check)
    return group


def _together() -> None:
    """A plan, before a workflow is made of it."""


def check(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="FILE", help="JSON, YAML or TOML; - is stdin.")],
) -> None:
    """Say whether `wfctl init` would take a plan, with every problem; writes nothing."""
    from lifecycle.plan.document import create
    from lifecycle.plan.fields import doubtful_parameters
    from service.documents.plan_file import read_plan
    from service.root.clock import system_clock, utc_text

    document: dict[str, Any] = create(read_plan(plan), created=utc_text(system_clock())).document
    stages = [stage["id"] for stage in document["stages"]]
    doubts = [doubt for stage in document["stages"] for doubt in doubtful_parameters(stage)]
    said = f"{plan}: a plan of {len(stages)} stages; `wfctl init {plan}` takes it"
    Output(settings_of(context)).result(
        {"workflow": document["workflow_id"], "stages": stages, "problems": [], "doubts": doubts},
        lambda: "\n".join([said, *doubts]),
    )
