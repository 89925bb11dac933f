"""The options by which ``events`` and ``log`` choose what they print, and how."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cli.frame.options import Text, Texts, Together, option
from cli.settings import Format
from cli.terminal.output import Output, compact, lean
from service.errors import InvalidOption
from service.reading.log import Selection
from service.reading.moment import Moment, parse_moment

if TYPE_CHECKING:
    from cli.frame.workspace import Reading

_WANTED = {
    "type_": Annotated[
        Texts, option("--type", "Show only this event type; stage.* matches a group.")
    ],
    "stage": Annotated[Texts, option("--stage", "Show only this stage.")],
    "session": Annotated[int | None, option("--session", "Show only this session.")],
    "status": Annotated[Text, option("--status", "Show only transitions to this status.")],
    "amendment": Annotated[Text, option("--amendment", "Show only this amendment.")],
    "since": Annotated[Text, option("MOMENT", "Show only entries after this moment.")],
    "until": Annotated[Text, option("MOMENT", "Show only entries up to this moment.")],
    "grep": Annotated[
        Text, option("--grep", "TEXT", "Show only entries that contain this text, ignoring case.")
    ],
}
Newest = Annotated[int | None, option("-n", "--limit", "N", "Show only the newest N.", min=1)]
Fields = Annotated[Text, option("--fields", "A,B.C", "Print only these fields, in this order.")]
Template = Annotated[
    Text, option("--template", "TEXT", "Format of each line, for example '{type}'.")
]
Reverse = Annotated[bool, option("--reverse", "Print the newest first.")]
Follow = Annotated[bool, option("--follow", "Keep printing new events.")]


class Chosen(NamedTuple):
    """Which events are asked for, as it was given."""

    types: list[str] | None = None
    stages: list[str] | None = None
    session: int | None = None
    status: str | None = None
    amendment: str | None = None
    since: str | None = None
    until: str | None = None
    grep: str | None = None

    def of(self, root: Reading) -> Selection:
        """Return what an event must have; the stages of people's entries are asked for apart."""
        return Selection(
            types=tuple(self.types or ()),
            stages=tuple(self.stages or ()),
            actor=root.output.settings.actor,
            session=self.session,
            status=self.status,
            amendment=self.amendment,
            since=_bound(root, self.since),
            until=_bound(root, self.until),
        )


def _bound(root: Reading, text: str | None) -> Moment | None:
    """Return an end of a range; that of a session is its last version."""
    return root.log.resolved(parse_moment(text)) if text is not None else None


ALL = Chosen()
Wanted = Annotated[Chosen, Together(Chosen, {name: (kind, None) for name, kind in _WANTED.items()})]

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a record is printed: chosen fields, or a template with ``{field}`` in it."""

    fields: tuple[str, ...] = ()
    template: str | None = None

    def print(
        self,
        output: Output,
        records: Iterable[Record],
        text: Callable[[Record], str],
        view: Moment | None,
    ) -> None:
        """Print records of a moment; ``text`` is what people see of one where none was chosen."""
        if self.template is not None:
            output.records(records, self._filled, view=view)
        elif self.fields:
            chosen = ({name: field(record, name) for name in self.fields} for record in records)
            output.records(chosen, lambda one: "\t".join(map(_cell, one.values())), view=view)
        else:
            output.records(records, text, view=view)

    def _filled(self, record: Record) -> str:
        def place(found: re.Match[str]) -> str:
            name = found[1]
            return found[0][0] if name is None else _cell(field(record, name))

        return _PLACE.sub(place, self.template or "")


def shape_of(output: Output, fields: str | None, template: str | None) -> Shape:
    """Return what was asked for; raises `InvalidOption` where it excludes itself."""
    if template is not None and (fields or output.settings.format is not Format.TEXT):
        raise InvalidOption("--template prints text: leave out --fields and -o json")
    names = tuple(name.strip() for name in fields.split(",")) if fields else ()
    return Shape(names, template)


def own_form(brief: int | None, others: dict[str, object]) -> None:
    """Raise `InvalidOption` where --brief stands beside an option that says how to print."""
    given = [name for name, value in others.items() if value]
    if brief is not None and given:
        raise InvalidOption(
            f"--brief has a form of its own, the newest last: leave out {' and '.join(given)}"
        )


def field(record: Record, name: str) -> Any:
    """Return what stands at a dotted name, None if nothing does."""
    value: Any = record
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def ordered(records: Iterable[Record], limit: int | None, reverse: bool) -> Iterable[Record]:
    """Return the newest ``limit`` records, or all, in their order or the newest first.

    No more than these are ever held.
    """
    if not (limit or reverse):
        return records
    found = deque(records, maxlen=limit)
    return reversed(found) if reverse else found


def matching(records: Iterable[Record], grep: str | None) -> Iterator[Record]:
    """Yield the records that hold a text anywhere in their values."""
    if grep is None:
        return iter(records)
    wanted = grep.casefold()
    return (record for record in records if wanted in _texts(record).casefold())


def _texts(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_texts, inner)) if isinstance(value, (dict, list)) else str(value)


def _cell(value: Any) -> str:
    """Return a value on one line; what is not text as JSON, nothing for null."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else compact(value)
    return " ".join(text.replace("\t", " ").splitlines())


#: Characters of a text, and entries of a list, that a brief record shows.
_TEXT, _ENTRIES = 160, 8


def print_newest(
    output: Output,
    records: Iterable[Record],
    budget: int,
    told: tuple[Callable[[Record], Record], Callable[[Record], str]],
    view: Moment | None = None,
) -> None:
    """Print the newest of many records, oldest first, as many as fit a budget of tokens.

    ``told``: what makes of a record what programs are shown, and the line for people.
    """
    from reconciler.briefing.briefing import TOKEN, tokens

    every, room, shown = list(records), budget * TOKEN, deque[Any]()
    short, text = told
    for record in reversed(every):
        line = _clipped(text(record) if output.is_text else lean(short(record)))
        room -= len((line if isinstance(line, str) else compact(line)).encode()) + 1
        if room < 0:
            break
        shown.appendleft(line)
    while tokens(rendered := _rendered(output, list(shown), len(every), view)) > budget and shown:
        shown.popleft()
    output.print(rendered)


def _rendered(output: Output, shown: list[Any], of: int, view: Moment | None) -> str:
    """Return the records that are shown, and how many are not."""
    if output.settings.format is Format.JSONL:
        return "\n".join(map(compact, shown))
    left_out = of - len(shown)
    head = [f"({left_out} older left out)"] if left_out else []
    return output.rendered(
        shown,
        lambda: "\n".join([*head, *shown]),
        view=view,
        is_brief=True,
        about={"left_out": left_out},
    )


def _clipped(value: Any) -> Any:
    """Return plain JSON values with long texts and long lists cut, each marked where it is."""
    if isinstance(value, str):
        return value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…"
    if isinstance(value, dict):
        return {key: _clipped(one) for key, one in value.items()}
    if isinstance(value, list):
        more = [f"… {len(value) - _ENTRIES} more"] if len(value) > _ENTRIES else []
        return [*map(_clipped, value[:_ENTRIES]), *more]
    return value
