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
from lifecycle.rules.flat import payload_of
from service.errors import InvalidOption, NotFound, UnreadablePlan

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_APPROVALS = OF_A_PERSON | {"amendment.approved"}


def append(
    context: typer.Context,
    options: Writes,
    type_: Text = argument("[TYPE]", "Event type, such as stage.completed."),
    stage: Text = option("STAGE", "The stage."),
    data: Text = option("JSON|@FILE|-", "The event's data, an object."),
    source: Text = option("--from", "FILE|-", 'JSON lines {"type", "data"}, all or nothing.'),
) -> None:
    """Issue the command that yields TYPE, with all its consequences, through the rules."""
    if (type_ is None) == (source is None):
        raise InvalidOption("expected either TYPE or --from FILE")
    if source is not None and (stage is not None or data is not None):
        raise InvalidOption("--from takes no --stage and no --data: its lines hold them")
    commands = _lines(source) if source is not None else [_command(type_ or "", stage, data)]
    for command in commands:
        _require_sayable(command.type)
    # An approval is a bare wish: a proof of consent is only taken where it is asked for.
    wishes = (
        one.model_copy(update={"proof": {}}) if one.type in _APPROVALS else one for one in commands
    )
    claim(context, options, *wishes)


def note(
    context: typer.Context,
    options: Writes,
    text: Annotated[str, argument("TEXT", "A line for progress.log.")],
    stage: Text = option("STAGE", "The stage."),
) -> None:
    """Write a line into the log."""
    issue(context, options, "note.logged", text=text, stage=stage)


def _command(type_: str, stage: str | None, data: str | None) -> Payload:
    values = object_of("--data", text_of(data)) if data is not None else {}
    if stage is not None:
        values["stage"] = stage
    return payload_of(type_, values)


def _require_sayable(type_: str) -> None:
    if type_ in OF_A_LOOK:
        instead = "wfctl stage reuse" if type_ == "outputs.reused" else "wfctl reconcile"
        raise NoCommand(
            f"{type_} is recorded by whoever looked at the files or the job, and by nobody's word; "
            f"call `{instead}`, which looks",
            type=type_,
        )
    if type_ == "cost.charged":
        raise NoCommand(
            "cost.charged follows by itself, once, from each end of a stage while a session is "
            "open, and is recorded by nobody's word; see `wfctl session show`.",
            type=type_,
        )


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


def _lines(source: str) -> list[Payload]:
    text = text_of("-" if source == "-" else f"@{source}")
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not numbered:
        raise InvalidOption(f"{source}: expected JSON lines, found none")
    return [_line(f"{source}, line {number}", line) for number, line in numbered]


def _line(place: str, line: str) -> Payload:
    values = object_of(place, line)
    type_ = values.get("type")
    data = values.get("data", {})
    if not isinstance(type_, str) or not isinstance(data, dict):
        raise InvalidOption(f'{place}: expected {{"type": "…", "data": {{…}}}}, found {line:.80}')
    return payload_of(type_, data)


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
