"""``wfctl append`` and ``wfctl note``: commands by their event, and free text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import Text, Writes, argument, option
from cli.frame.writes import claim, issue
from lifecycle.errors import NoCommand
from lifecycle.payload.event_types import OF_A_LOOK, OF_A_PERSON
from lifecycle.rules.decide import payload_of
from service.errors import InvalidOption, NotFound, UnreadablePlan

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_APPROVALS = OF_A_PERSON | {"amendment.approved", "stage.retried"}


def append(
    context: typer.Context,
    options: Writes,
    type_: Text = argument("[TYPE]", "Event type, such as stage.completed."),
    stage: Text = option("STAGE", "Id of the stage."),
    data: Text = option("JSON|@FILE|-", "Data of the event, a JSON object."),
    source: Text = option("--from", "FILE|-", 'Append JSON lines {"type", "data"}, all or none.'),
) -> None:
    """Append an event through the rules.

    The event has all its consequences, as if the command of the event had been called.
    """
    if (type_ is None) == (source is None):
        raise InvalidOption("expected either TYPE or --from FILE")
    if source is not None and (stage is not None or data is not None):
        raise InvalidOption("--from takes no --stage and no --data: its lines hold them")
    if source is not None:
        commands = _commands_in(source)
    else:
        values = object_of("--data", text_of(data)) if data is not None else {}
        values |= {"stage": stage} if stage is not None else {}
        commands = [payload_of(type_ or "", values)]
    for command in commands:
        if command.type in OF_A_LOOK:
            instead = "stage reuse" if command.type == "outputs.reused" else "reconcile"
            raise NoCommand(
                f"{command.type} is recorded by anyone who looked at the files or the job, and by "
                f"nobody's word; call `wfctl {instead}`, which looks",
                type=command.type,
            )
        if command.type == "cost.charged":
            raise NoCommand(
                "cost.charged follows by itself, once, from each end of a stage while a session "
                "is open, and is recorded by nobody's word; see `wfctl session show`.",
                type=command.type,
            )
    # An approval is a bare wish: a proof of consent is only taken where it is asked for.
    wishes = (
        one.model_copy(update={"proof": {}}) if one.type in _APPROVALS else one for one in commands
    )
    claim(context, options, *wishes)


def note(
    context: typer.Context,
    options: Writes,
    text: Annotated[str, argument("TEXT", "Line for progress.log.")],
    stage: Text = option("STAGE", "Id of the stage."),
) -> None:
    """Write a line into the log."""
    issue(context, options, "note.logged", text=text, stage=stage)


def text_of(data: str) -> str:
    """Return what ``JSON``, ``@FILE`` or ``-`` gives; raises `NotFound`."""
    if data == "-":
        return sys.stdin.read()
    if not data.startswith("@"):
        return data
    try:
        return Path(data[1:]).read_text("utf-8")
    except FileNotFoundError:
        raise NotFound(f"no file {data[1:]}") from None


def _commands_in(source: str) -> list[Payload]:
    commands: list[Payload] = []
    text = text_of("-" if source == "-" else f"@{source}")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"{source}, line {number}"
        values = object_of(place, line)
        type_, data = values.get("type"), values.get("data", {})
        if not isinstance(type_, str) or not isinstance(data, dict):
            raise InvalidOption(
                f'{place}: expected {{"type": "…", "data": {{…}}}}, found {line:.80}'
            )
        commands.append(payload_of(type_, data))
    if not commands:
        raise InvalidOption(f"{source}: expected JSON lines, found none")
    return commands


def object_of(place: str, text: str) -> dict[str, Any]:
    """Return the JSON object that an option or a line gives; raises `InvalidOption`."""
    from service.documents.plan_file import decode_json

    try:
        value = decode_json(place, text)
    except UnreadablePlan as error:
        raise InvalidOption(error.message, **error.data) from error
    if not isinstance(value, dict):
        raise InvalidOption(f"{place}: expected a JSON object, found {text:.80}")
    return value
