"""``wfctl machine describe``: what a definition says."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cli.commands.machine.output import MachineOutput
from cli.commands.machine.workspace import Machines, looking
from cli.frame.workspace import settings_of
from lifecycle.machines.definition import Definition
from projections.machines.description import described, listed, mermaid, outlined, page
from service.machines import place
from service.machines.definitions import SHIPPED, from_file, shipped


def describe(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[TYPE|ID]", help="A type, or a machine; else all.")
    ] = None,
    definition: Annotated[
        str | None, typer.Option(metavar="FILE", help="A definition of your own; - is stdin.")
    ] = None,
    diagram: Annotated[
        bool, typer.Option("--mermaid", help="Print only the diagram, in Mermaid's language.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With guards as data, schemas, reserved fields, diagram.")
    ] = False,
    source: Annotated[
        bool, typer.Option("--source", help="The definition itself, for --definition FILE.")
    ] = False,
) -> None:
    """Print phases, transitions and guards; without a name, which types there are."""
    output = MachineOutput(settings_of(context))
    found = _found(context, name, definition)
    if name is None and definition is None and not (full or source or diagram):
        rows = [listed(one) for one in found]
        output.result(rows, lambda: "\n".join(f"{row['id']:<12} {row['title']}" for row in rows))
        return
    show = Definition.source if source else described if full else outlined
    data = [show(one) for one in found]
    tell = _json if source else mermaid if diagram else page
    one = name is not None or definition is not None
    output.result(data[0] if one else data, lambda: "\n".join(map(tell, found)))


def _json(definition: Definition) -> str:
    return json.dumps(definition.source(), indent=2, ensure_ascii=False)


def _found(context: typer.Context, name: str | None, file: str | None) -> list[Definition]:
    if file is not None:
        return [from_file(file)]
    if name is None:
        return [shipped(one) for one in SHIPPED]
    if name in SHIPPED:
        return [shipped(name)]
    with looking(context, name) as machines:
        return [_of_machine(machines, name)]


def _of_machine(machines: Machines, name: str) -> Definition:
    """Return the definition of a machine, else the user's own of that name; `StateNotFound`."""
    known = list(place.ids(machines.root, machines.store))
    for id_ in known if name not in known else ():
        definition = machines.state(id_).definition
        if definition.id == name:
            return definition
    return machines.state(name).definition
