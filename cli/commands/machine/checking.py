"""``wfctl machine check``: everything that is wrong with a definition, or a drawing of it."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.machine.output import MachineOutput
from cli.frame.workspace import settings_of
from projections.machines.description import listed, mermaid
from service.machines.definitions import from_file


def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A definition; - is stdin.")],
) -> None:
    """Say all that is wrong with a definition, dead ends too (exit 1); draw one that is sound."""
    definition = from_file(file)
    data = {**listed(definition), "transitions": len(definition.transitions)}
    drawing = mermaid(definition)
    sound = f"{definition.id}: sound, {data['phases']} phases, {data['transitions']} transitions"
    output = MachineOutput(settings_of(context))
    output.result({**data, "mermaid": drawing}, lambda: f"{sound}\n{drawing}")
