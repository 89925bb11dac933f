"""``wfctl plan``: a plan looked at before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from cli.frame.planned import with_pins
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
    """Say whether `wfctl init` would take a plan, with every problem and advice; writes nothing."""
    from lifecycle.plan.advice import parameters_of
    from lifecycle.plan.document import create
    from service.documents.plan_file import read_plan
    from service.questions.advice import advice_of
    from service.root.clock import system_clock, utc_text
    from service.writing.workflow_service import planned_state

    settings = settings_of(context)
    now = utc_text(system_clock())
    document = with_pins(read_plan(plan), settings.start)
    state = planned_state(((create(document, created=now), now),))
    parameters = {stage.id: parameters_of(stage.parameters) for stage in state.stages.values()}
    found = advice_of(settings.start, state)
    data = {
        "workflow": state.id,
        "stages": [*state.stages],
        "problems": [],
        "advice": found,
        "parameters": parameters,
    }
    head = f"{plan}: a plan of {len(state.stages)} stages; `wfctl init {plan}` takes it"
    told = [f"{id_}: {line}" for id_, of in parameters.items() for line in _shown(of)]
    Output(settings).result(data, lambda: "\n".join([head, *told, *_advised(found)]))


def _shown(parameters: dict[str, list[str]]) -> Iterator[str]:
    """Yield whose the parameters of a stage are, a line each."""
    for reader, names in parameters.items():
        if names:
            whose = "wfctl reads" if reader == "wfctl" else "its command alone reads"
            yield f"{whose} {', '.join(names)}"


def _advised(advice: list[str]) -> list[str]:
    return ["advice, which nothing enforces:", *(f"  {line}" for line in advice)] if advice else []
