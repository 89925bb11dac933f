"""Arguments of the commands of machines: ids, paths with values, JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.commands.append import object_of, text_of
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.payload import MachineUpdated, change_of
from lifecycle.words.layout import layout_of

MachineId = Annotated[str, typer.Argument(metavar="ID", help="Id of the machine.")]
Values = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH=VALUE]…", help="Dot paths with JSON, or plain text."),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="JSON|@FILE|-", help="An object, its keys paths.")
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")]

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task.")]
Under = Annotated[
    str | None,
    typer.Option(metavar="CLAIM", help="Your claim of the task, as `task claim` gave it."),
]
DespiteClaim = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="End somebody else's claim of the task, and say why."),
]


def data_of(data: str | None) -> dict[str, Any]:
    """Return the object that ``--data`` gives: JSON, ``@FILE``, or ``-``."""
    return {} if data is None else object_of("--data", text_of(data))


def pairs_of(values: list[str] | None) -> dict[str, Any]:
    """Return PATH=VALUE words as path → value; a value that is no JSON is text."""
    found: dict[str, Any] = {}
    for word in values or []:
        path, equals, value = word.partition("=")
        if not equals or not path:
            raise InvalidInput(f"expected PATH=VALUE, found {word!r}", value=word)
        if "[" in path and "]" not in path:
            # The equals sign stands inside of brackets: no path holds one.
            path = f"{path}={value.partition(']')[0]}]"
        found[path] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def update_of(values: list[str] | None, data: str | None) -> MachineUpdated:
    """Return the command that writes what the words and ``--data`` say."""
    fields = {**data_of(data), **pairs_of(values)}
    if not fields:
        raise InvalidInput("nothing to update: expected PATH=VALUE, or --data with an object")
    changes = [change_of(path, value) for path, value in fields.items()]
    listed = [change.model_dump(mode="json") for change in changes]
    return MachineUpdated(changes=changes, layout=layout_of(listed))
