"""Options of ``wfctl events`` and ``wfctl log``: selection of events, and output format."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cli.frame.options import Text, Texts, Together, option
from cli.settings import Format
from cli.terminal.output import Output, drop_empty_values, format_compact_json
from service.errors import InvalidOption
from service.reading.log import Selection
from service.reading.point_in_history import Moment, parse_moment

if TYPE_CHECKING:
    from cli.frame.workspace import Reading

_WANTED = {
    "type_": Annotated[
        Texts,
        option(
            "--type",
            "Show only events of this type, for example stage.failed, or stage.* for all "
            "stage events.",
        ),
    ],
    "stage": Annotated[
        Texts, option("--stage", "Show only entries about this stage, for example stage-2.")
    ],
    "session": Annotated[
        int | None, option("--session", "Show only entries recorded during working session N.")
    ],
    "status": Annotated[
        Text,
        option(
            "--status", "Show only entries that changed a stage to this status, for example failed."
        ),
    ],
    "amendment": Annotated[
        Text,
        option(
            "--amendment",
            "Show only entries about this amendment (a proposed change to the plan), for "
            "example amend-1.",
        ),
    ],
    "since": Annotated[
        Text,
        option(
            "MOMENT",
            "Show only entries recorded after this moment: an event number (12) or a time "
            "(@{2 hours ago}).",
        ),
    ],
    "until": Annotated[
        Text,
        option(
            "MOMENT",
            "Show only entries recorded up to this moment: an event number (12) or a time "
            "(@{2 hours ago}).",
        ),
    ],
    "grep": Annotated[
        Text,
        option("--grep", "TEXT", "Show only entries that contain this text, ignoring case."),
    ],
}
Newest = Annotated[
    int | None,
    option("-n", "--limit", "N", "Show only the N newest entries. Default: all entries.", min=1),
]
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
Reverse = Annotated[bool, option("--reverse", "Print the newest entries first.")]
Follow = Annotated[
    bool, option("--follow", "Keep running, and print new entries as they are recorded.")
]


class Chosen(NamedTuple):
    """The options that select events, for example by type, stage, session or time."""

    types: list[str] | None = None
    stages: list[str] | None = None
    session: int | None = None
    status: str | None = None
    amendment: str | None = None
    since: str | None = None
    until: str | None = None
    grep: str | None = None

    def of(self, root: Reading) -> Selection:
        """Return the selection of events that these options describe."""
        return Selection(
            types=tuple(self.types or ()),
            stages=tuple(self.stages or ()),
            actor=root.output.settings.actor,
            session=self.session,
            status=self.status,
            amendment=self.amendment,
            since=_resolve_bound(root, self.since),
            until=_resolve_bound(root, self.until),
        )


def _resolve_bound(root: Reading, text: str | None) -> Moment | None:
    """Return the moment at which a range of events starts or ends, or None for no limit.

    A session means the last log version of the session.
    """
    if text is None:
        return None
    moment = parse_moment(text)
    if root.is_of_all_machines:
        from cli.frame.machine_history import check_is_of_all

        check_is_of_all(moment)
        return moment
    return root.log.resolved(moment)


ALL = Chosen()
Wanted = Annotated[Chosen, Together(Chosen, {name: (kind, None) for name, kind in _WANTED.items()})]

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
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


def shape_of(output: Output, fields: str | None, template: str | None) -> Shape:
    """Return the output format that the options request.

    Raises `InvalidOption` if the options exclude each other.
    """
    if template is not None and (fields or output.settings.format is not Format.TEXT):
        raise InvalidOption(
            "the option --template prints text and cannot be combined with --fields or -o json. "
            "Remove these options."
        )
    names = tuple(name.strip() for name in fields.split(",")) if fields else ()
    return Shape(names, template)


def own_form(brief: int | None, others: dict[str, object]) -> None:
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


def select_newest(records: Iterable[Record], limit: int | None, reverse: bool) -> Iterable[Record]:
    """Return the newest ``limit`` records, or all records if ``limit`` is None.

    The order is oldest first, or newest first with ``reverse``. At most ``limit`` records are kept
    in memory.
    """
    if not (limit or reverse):
        return records
    found = deque(records, maxlen=limit)
    return reversed(found) if reverse else found


def filter_records(records: Iterable[Record], grep: str | None) -> Iterator[Record]:
    """Yield the records that contain the text ``grep`` in any of their values."""
    if grep is None:
        return iter(records)
    wanted = grep.casefold()
    return (record for record in records if wanted in _join_texts(record).casefold())


def _join_texts(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_join_texts, inner)) if isinstance(value, (dict, list)) else str(value)


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
