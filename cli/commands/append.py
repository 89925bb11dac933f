"""``wfctl append`` and ``wfctl note``: append an event or a note to the log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cli.frame.context import Context
from cli.frame.options import Text, Texts, Writes, argument, option
from cli.frame.write_command import issue_command, record_checked_claims
from lifecycle.errors import InvalidPayload, NoCommand
from lifecycle.payload.build_payload import model_of, payload_of
from lifecycle.payload.event_types import OBSERVED_TYPES, PERSON_TYPES, STAGED
from service.errors import InvalidOption, NotFound, UnreadablePlan

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

NOTE = "note.logged"
#: Short name → full name of an event type.
_NAMES = {"note": NOTE}
_EXAMPLE = "wfctl append note.logged text=hello"
#: Type of a field → sample value for the example in an error message.
_SAMPLES: dict[type, str] = {str: "TEXT", int: "1", float: "1.5", bool: "true"}
_APPROVALS = PERSON_TYPES | {"amendment.approved", "stage.retried"}


Data = Annotated[
    Text,
    option(
        "JSON|@FILE|-",
        "Set the data of the event: a JSON object, a file that contains the object "
        "(@FILE), or - for stdin.",
    ),
]
Source = Annotated[
    Text,
    option(
        "--from",
        "FILE|-",
        "Append all events in this file or in stdin (-), one JSON object on each "
        "line. If the rules refuse one event, append no event.",
    ),
]


def append(
    context: Context,
    options: Writes,
    type_: Text = argument(
        "[TYPE]",
        "The event type, for example stage.completed, or - to read events as JSON "
        "lines from stdin.",
    ),
    words: Texts = argument(
        "[FIELD=VALUE]…",
        "The data of the event: FIELD=VALUE pairs, one JSON object, or the text of a note.",
    ),
    stage: Text = option("STAGE", "Link the log entry to this stage, for example stage-2."),
    data: Data = None,
    source: Source = None,
) -> None:
    """Append an event to the log, if the rules allow the event.

    wfctl then updates the state and the files, as after the command that usually records this
    event.
    """
    if type_ == "-" or (type_ is None and source is None and not sys.stdin.isatty()):
        type_, source = None, source or "-"
    if (type_ is None) == (source is None):
        raise InvalidOption(
            "the command needs either an event TYPE or the option --from FILE. For example, run "
            f"`{_EXAMPLE}`."
        )
    if source is not None and (stage is not None or data is not None or words):
        raise InvalidOption(
            "the option --from cannot be combined with --stage or event data, because each input "
            "line already contains the stage and the data."
        )
    if source is not None:
        commands = _commands_in(source)
    else:
        type_ = _NAMES.get(type_ or "", type_ or "")
        values = parse_json_object("--data", read_option_text(data)) if data is not None else {}
        values |= _parse_event_fields(type_, words or [])
        values |= {"stage": stage} if stage is not None else {}
        commands = [_build_payload(type_, values)]
    for command in commands:
        _refuse_derived_event(command.type)
    # Remove the proof of a person's approval. wfctl accepts such a proof only from the command that
    # asked the person.
    wishes = (
        one.model_copy(update={"proof": {}}) if one.type in _APPROVALS else one for one in commands
    )
    record_checked_claims(context, options, *wishes)


def _refuse_derived_event(type_: str) -> None:
    """Raise `NoCommand` if users cannot append events of this type.

    wfctl records these events only after it has checked files or a job, or has computed a cost.
    """
    if type_ in OBSERVED_TYPES:
        instead = "stage reuse" if type_ == "outputs.reused" else "reconcile"
        raise NoCommand(
            f"an event of the type {type_} cannot be appended directly, because wfctl must first "
            f"check the files or the job. Run `wfctl {instead}`, which makes this check and "
            "records the event.",
            type=type_,
        )
    if type_ == "cost.charged":
        raise NoCommand(
            "an event of the type cost.charged cannot be appended directly, because wfctl records "
            "the cost whenever a stage ends during an open session. To see the costs, run "
            "`wfctl session show`.",
            type=type_,
        )


def _build_payload(type_: str, values: dict[str, Any]) -> Payload:
    """Return the data model of an event, built from the given values.

    Raises `InvalidPayload` if the values are invalid. The error contains an example command.
    """
    try:
        return payload_of(type_, values)
    except InvalidPayload as error:
        raise InvalidPayload(type_, error.problems, _format_example(type_)) from error


def _format_example(type_: str) -> str:
    """Return an example of ``wfctl append`` with a sample value for each required field.

    If a required field contains nested data, the example reads all data from a file.
    """
    fields = model_of(type_).model_fields
    samples = {
        name: "stage-1" if name == "stage" else _get_sample_value(field.annotation)
        for name, field in fields.items()
        if field.is_required()
    }
    if None in samples.values():
        return f"wfctl append {type_} --data @FILE"
    return " ".join(["wfctl append", type_, *(f"{name}={one}" for name, one in samples.items())])


def _get_sample_value(annotation: Any) -> str | None:
    """Return a sample value for a field's type, or None if the type contains nested data."""
    choices = get_args(annotation)
    if choices and all(isinstance(one, str) for one in choices):
        return str(choices[0])
    return _SAMPLES.get(annotation)


def _parse_event_fields(type_: str, words: list[str]) -> dict[str, Any]:
    """Parse the words of a command line, and return the fields of the event.

    Each word is ``FIELD=VALUE`` or a JSON object. For a note, a single word may be the text.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("{"):
            values |= parse_json_object("data", word)
        elif equals and name.isidentifier():
            values[name] = _parse_value(type_, name, value)
        elif type_ == NOTE and len(words) == 1:
            values["text"] = word
        else:
            raise InvalidOption(
                f"the argument {word!r} does not have the form FIELD=VALUE. For example, run "
                f"`{_EXAMPLE}`."
            )
    return values


def _parse_value(type_: str, name: str, text: str) -> Any:
    """Return the value of a field, parsed as JSON if possible.

    Text that is not JSON stays text. If the field of the event contains text, a number such as
    ``12`` also stays text.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    field = model_of(type_).model_fields.get(name) if type_ in STAGED else None
    is_text = field is not None and str in (field.annotation, *get_args(field.annotation))
    return text if is_text and not isinstance(value, str) and value is not None else value


def note(
    context: Context,
    options: Writes,
    text: Annotated[
        str,
        argument(
            "TEXT", "The text of the note. wfctl also writes the note to the file progress.log."
        ),
    ],
    stage: Text = option("STAGE", "Link the log entry to this stage, for example stage-2."),
) -> None:
    """Add a note to the log."""
    issue_command(context, options, "note.logged", text=text, stage=stage)


def read_option_text(data: str) -> str:
    """Return the text that an option gives directly, as ``@FILE``, or as ``-`` for stdin.

    Raises `NotFound` if the file does not exist.
    """
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
    text = read_option_text("-" if source == "-" else f"@{source}")
    for place, line in _iterate_input_documents(source, text):
        values = parse_json_object(place, line)
        type_, data = values.get("type"), values.get("data", {})
        if not isinstance(type_, str) or not isinstance(data, dict):
            raise InvalidOption(
                f"{place}: this line does not describe an event: {line:.80}. An event has the form "
                '{"type": "…", "data": {…}}'
            )
        commands.append(_build_payload(type_, data))
    if not commands:
        name = "the standard input" if source == "-" else f"the file {source}"
        raise InvalidOption(
            f"{name} contains no JSON lines. To append one event, run `{_EXAMPLE}`. "
            f'A line looks like {{"type": "{NOTE}", "data": {{"text": "hello"}}}}'
        )
    return commands


def _iterate_input_documents(source: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each non-empty line of the text with its place, for example ``FILE, line 3``.

    If the first line is a single ``{``, yield the whole text as one JSON object.
    """
    lines = [(f"{source}, line {n}", one) for n, one in enumerate(text.splitlines(), 1)]
    lines = [(place, line) for place, line in lines if line.strip()]
    if lines and lines[0][1].strip() == "{":
        lines = [(source, text)]
    yield from lines


def parse_json_object(place: str, text: str) -> dict[str, Any]:
    """Parse a JSON object from an option or from a line of input.

    ``place`` names the source in error messages. Raises `InvalidOption` if the text is not a JSON
    object.
    """
    from service.documents.plan_file import decode_json

    try:
        value = decode_json(place, text)
    except UnreadablePlan as error:
        raise InvalidOption(error.message, **error.data) from error
    if not isinstance(value, dict):
        raise InvalidOption(f"{place}: expected a JSON object, found {text:.80}")
    return value
