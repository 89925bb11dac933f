"""Reading a ``workflow-state.json`` of somebody else's: lines, times."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

from lifecycle.plan.imported import problems
from lifecycle.words.document import escaped, with_listed_paths
from service.documents.plan_file import decode_json
from service.errors import UnimportableState, UnreadablePlan
from service.root.disk import utc_text

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|(?P<constant>-?Infinity|NaN)', re.DOTALL)


def lines_of(text: str) -> dict[str, int]:
    """Return JSON pointer (RFC 6901) → line, from 1, of every value of a valid JSON text."""
    line, last, found = 1, 0, {}
    for pointer, position in _value(text, _skip(text, 0), "")[1]:
        line += text.count("\n", last, position)
        found[pointer], last = line, position
    return found


def _value(text: str, start: int, pointer: str) -> tuple[int, list[tuple[str, int]]]:
    """Return where the value ends, and the places in it."""
    places = [(pointer, start)]
    if text[start] not in "{[":
        _, end = _DECODER.raw_decode(text, start)
        return end, places
    position, index = _skip(text, start + 1), 0
    while text[position] not in "}]":
        begin, name = position, str(index)
        if text[start] == "{":
            name, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        child = f"{pointer}/{escaped(name)}"
        position, inner = _value(text, position, child)
        places += [(child, begin), *inner[1:]]
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
        index += 1
    return position + 1, places


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _place(text: str | bytes, position: int) -> tuple[int, int]:
    """Return line and column of a position, from 1."""
    newline: Any = b"\n" if isinstance(text, bytes) else "\n"
    return text.count(newline, 0, position) + 1, position - text.rfind(newline, 0, position)


def _depth(text: str) -> int:
    """Return how deep objects and arrays are nested at most; the text need not be valid."""
    deepest = depth = 0
    for bracket in re.sub(r'"(?:\\.|[^"\\])*"|[^\[\]{}"]+', "", text, flags=re.DOTALL):
        depth += bracket in "[{" or -(bracket in "]}")
        deepest = max(deepest, depth)
    return deepest


#: Documents nested deeper are not of a workflow.
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class StateFile:
    """A version of the state: its bytes, its document, and where things stand in it."""

    content: bytes
    document: dict[str, Any]
    lines: dict[str, int]
    #: Pointers of the paths that had names: ``{"film": "stage-1/film.xyz"}``, taken as a list.
    named: Sequence[str] = ()

    def line(self, pointer: str) -> int:
        """Return the line of a value, or of the nearest thing around it."""
        while pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines[pointer]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The entries of the document's ``stages``."""
        found: list[dict[str, Any]] = self.document["stages"]
        return found


def read_state(name: str, content: bytes) -> StateFile:
    """Decode and check a state file; ``name`` is what messages call it.

    Raises `UnreadablePlan` with line and column, or `UnimportableState` with every problem.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"byte {content[error.start]:#04x}"
        raise UnreadablePlan(name, "UTF-8", why, *_place(content, error.start)) from error
    document, named = _decode(name, text), list[str]()
    lines = lines_of(text)
    stages = document.get("stages") if isinstance(document, dict) else None
    if isinstance(stages, list):
        found = [with_listed_paths(stage) for stage in stages]
        document = {**document, "stages": [stage for stage, _ in found]}
        named = [f"/stages/{n}/{field}" for n, (_, fields) in enumerate(found) for field in fields]
    state = StateFile(content, document, lines, named)
    wrong = [*problems(document)] or [*_unportable(document, "")]
    if wrong:
        said = [f"line {state.line(place)}, {place or '/'}: {why}" for place, why in wrong]
        raise UnimportableState(name, said)
    return state


def _decode(name: str, text: str) -> Any:
    if _depth(text) > _DEPTH:
        raise UnimportableState(name, [f"nested deeper than {_DEPTH} levels"])
    try:
        return decode_json(name, text)
    except UnreadablePlan as error:
        constants = (token.start() for token in _TOKEN.finditer(text) if token["constant"])
        first = next(constants, None)
        if first is None or error.data["line"] is not None:
            raise
        why = "NaN and Infinity are no JSON numbers"
        raise UnreadablePlan(name, "JSON", why, *_place(text, first)) from error


def _unportable(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield what the log cannot carry so that it reads back the same."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _unportable(key, place)
            yield from _unportable(child, f"{place}/{escaped(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _unportable(child, f"{place}/{index}")
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield place, "half a character (a surrogate) is no text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "the number is too large"
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield place, "the number has more than 64 bits; write it as text"


_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
#: Earlier times are mistakes, and the log writes years with four digits.
_FIRST_YEAR = 1970
#: What one step may take: a job is launched, the state is written, and then the log.
_A_MOMENT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class TypedTime:
    """A time as it was typed, and the moment it names: UTC, in the log's form."""

    text: str
    moment: str
    has_seconds: bool
    #: The offset that was typed with it, None if none was.
    offset: tzinfo | None

    def is_before(self, other: TypedTime) -> bool:
        """Whether it is earlier, by as much of both as was typed."""
        size = 19 if self.has_seconds and other.has_seconds else 16
        return self.moment[:size] < other.moment[:size]

    def is_long_before(self, other: TypedTime) -> bool:
        """Whether it is earlier by more than it takes to launch something and to write it down."""
        gap = datetime.fromisoformat(other.moment) - datetime.fromisoformat(self.moment)
        return self.is_before(other) and gap > _A_MOMENT

    def is_same_second(self, other: TypedTime) -> bool:
        """Whether both were given to the second, and are the same."""
        return self.has_seconds and other.has_seconds and self.moment == other.moment


def parse_time(text: str, zone: tzinfo | None) -> TypedTime | None:
    """Return the time that ``text`` is; None if it is not a time.

    ``zone`` holds for a time without offset; None is the local one.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    day, minute, seconds, offset = found.groups()
    try:
        typed = datetime.fromisoformat(f"{day}T{minute}{seconds or ':00'}{offset or ''}")
        moment = typed if typed.tzinfo or zone is None else typed.replace(tzinfo=zone)
        if moment.year < _FIRST_YEAR:
            return None
        return TypedTime(text.strip(), utc_text(moment), seconds is not None, typed.tzinfo)
    except (ValueError, OverflowError):
        return None


def parse_offset(text: str) -> tzinfo | None:
    """Return the zone of an offset such as ``+02:00`` or ``Z``; None if it is not an offset."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", "+00:00" if text == "Z" else text, re.ASCII)
    if found is None or int(found[2]) > 14 or int(found[3]) > 59:
        return None
    shift = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-shift if found[1] == "-" else shift)
