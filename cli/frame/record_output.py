"""Print records as a table, as JSON, or with a template."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from cli.frame.options import Text, option
from cli.settings import Format
from cli.terminal.output import Output, drop_empty_values, format_compact_json
from service.errors import InvalidOption
from service.reading.point_in_history import Moment

Fields = Annotated[
    Text,
    option(
        "--fields",
        "A,B.C",
        "Print only these fields of each entry, in this order. Separate the names with commas.",
    ),
]
Template = Annotated[
    Text,
    option(
        "--template",
        "TEXT",
        "Print each entry in this format. Each field name in braces, such as {type}, "
        "is replaced by its value.",
    ),
]
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """The output format of a record: selected fields, or a template with ``{field}``."""

    fields: tuple[str, ...] = ()
    template: str | None = None

    def print(
        self,
        output: Output,
        records: Iterable[Record],
        text: Callable[[Record], str],
        view: Moment | None,
    ) -> None:
        """Print the records in this format.

        If neither fields nor a template are given, the function ``text`` formats each record for
        people. ``view`` is the moment that the records show.
        """
        if self.template is not None:
            output.records(records, self._fill_template, view=view)
        elif self.fields:
            chosen = ({name: get_field(record, name) for name in self.fields} for record in records)
            output.records(
                chosen, lambda one: "\t".join(map(_format_cell, one.values())), view=view
            )
        else:
            output.records(records, text, view=view)

    def _fill_template(self, record: Record) -> str:
        def place(found: re.Match[str]) -> str:
            name = found[1]
            return found[0][0] if name is None else _format_cell(get_field(record, name))

        return _PLACE.sub(place, self.template or "")


def build_record_format(output: Output, fields: str | None, template: str | None) -> RecordFormat:
    """Return the output format that the options request.

    Raises `InvalidOption` if the options exclude each other.
    """
    if template is not None and (fields or output.settings.format is not Format.TEXT):
        raise InvalidOption(
            "the option --template prints text and cannot be combined with --fields or -o json. "
            "Remove these options."
        )
    names = tuple(name.strip() for name in fields.split(",")) if fields else ()
    return RecordFormat(names, template)


def check_brief_format(brief: int | None, others: dict[str, object]) -> None:
    """Raise `InvalidOption` if --brief is combined with another output format option."""
    given = [name for name, value in others.items() if value]
    if brief is not None and given:
        raise InvalidOption(
            "the option --brief has its own output format and cannot be combined with "
            f"{' and '.join(given)}. Remove one of these options."
        )


def get_field(record: Record, name: str) -> Any:
    """Return the value of a field, given by its dotted name, or None if it is missing."""
    value: Any = record
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _format_cell(value: Any) -> str:
    """Return a value as one line of text.

    Strings stay unchanged, except for line breaks and tabs. Null becomes empty. Other values are
    written as JSON.
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else format_compact_json(value)
    return " ".join(text.replace("\t", " ").splitlines())


#: Maximum number of characters of a text, and maximum number of items of a list, in the output of
#: --brief.
_TEXT, _ENTRIES = 160, 8


def print_newest(
    output: Output,
    records: Iterable[Record],
    budget: int,
    told: tuple[Callable[[Record], Record], Callable[[Record], str]],
    view: Moment | None = None,
) -> None:
    """Print as many of the newest records as the token budget allows, oldest first.

    ``told`` contains two functions. The first returns the record as data for programs, and the
    second as a line of text for people.
    """
    from reconciler.briefing.briefing import TOKEN, count_tokens

    every, room, shown = list(records), budget * TOKEN, deque[Any]()
    short, text = told
    for record in reversed(every):
        line = _clip_value(text(record) if output.is_text else drop_empty_values(short(record)))
        room -= len((line if isinstance(line, str) else format_compact_json(line)).encode()) + 1
        if room < 0:
            break
        shown.appendleft(line)
    while (
        count_tokens(rendered := _render_records(output, list(shown), len(every), view)) > budget
        and shown
    ):
        shown.popleft()
    output.print(rendered)


def _render_records(output: Output, shown: list[Any], of: int, view: Moment | None) -> str:
    """Return the records as text in the output format, with the number of omitted records.

    ``of`` is the number of all records.
    """
    if output.settings.format is Format.JSONL:
        return "\n".join(map(format_compact_json, shown))
    left_out = of - len(shown)
    head = [f"({left_out} older left out)"] if left_out else []
    return output.rendered(
        shown,
        lambda: "\n".join([*head, *shown]),
        view=view,
        is_brief=True,
        about={"left_out": left_out},
    )


def _clip_value(value: Any) -> Any:
    """Return JSON values in which long strings and long lists are shortened and marked."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…"
    if isinstance(value, dict):
        return {key: _clip_value(one) for key, one in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _ENTRIES} more"] if len(value) > _ENTRIES else []
        return [*map(_clip_value, value[:_ENTRIES]), *more]
    return value
