"""Read a hand-written ``workflow-state.json``, with the line numbers of its values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from typing import Any

from lifecycle.plan.imported_document import find_import_problems
from lifecycle.words.document import convert_named_paths_to_lists, escape_pointer_key
from service.documents.plan_file import decode_json
from service.errors import UnimportableState, UnreadablePlan

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|(?P<constant>-?Infinity|NaN)', re.DOTALL)


def map_pointers_to_lines(text: str) -> dict[str, int]:
    """Return the line of each value in a valid JSON text, by JSON pointer (RFC 6901).

    Lines count from 1.
    """
    line, last, found = 1, 0, {}
    for pointer, position in _locate_values(text, _skip_space(text, 0), "")[1]:
        line += text.count("\n", last, position)
        found[pointer], last = line, position
    return found


def _locate_values(text: str, start: int, pointer: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the end of a JSON value, and the start positions of all values in it.

    Each start position comes with the JSON pointer of its value.
    """
    places = [(pointer, start)]
    if text[start] not in "{[":
        _, end = _DECODER.raw_decode(text, start)
        return end, places
    position, index = _skip_space(text, start + 1), 0
    while text[position] not in "}]":
        begin, name = position, str(index)
        if text[start] == "{":
            name, position = _DECODER.raw_decode(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        child = f"{pointer}/{escape_pointer_key(name)}"
        position, inner = _locate_values(text, position, child)
        places += [(child, begin), *inner[1:]]
        position = _skip_space(text, position)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
        index += 1
    return position + 1, places


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _find_line_and_column(text: str | bytes, position: int) -> tuple[int, int]:
    """Return the line and column of a position, counted from 1."""
    newline: Any = b"\n" if isinstance(text, bytes) else "\n"
    return text.count(newline, 0, position) + 1, position - text.rfind(newline, 0, position)


def _measure_depth(text: str) -> int:
    """Return the maximum nesting depth of JSON objects and arrays.

    The text may be invalid JSON.
    """
    deepest = depth = 0
    for bracket in re.sub(r'"(?:\\.|[^"\\])*"|[^\[\]{}"]+', "", text, flags=re.DOTALL):
        depth += bracket in "[{" or -(bracket in "]}")
        deepest = max(deepest, depth)
    return deepest


#: Maximum nesting depth of an imported document. Deeper documents are refused, because their
#: decoding is recursive.
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class StateFile:
    """One version of the state file: bytes, JSON document, and lines of all values."""

    content: bytes
    document: dict[str, Any]
    lines: dict[str, int]
    #: JSON pointers of the fields in which paths have names, such as ``{"film":
    #: "stage-1/film.xyz"}``. They are imported as lists of paths.
    named: Sequence[str] = ()

    def line(self, pointer: str) -> int:
        """Return the line of the value at a JSON pointer.

        If the value does not exist, the line of its nearest existing parent is returned.
        """
        while pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines[pointer]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The stages in the JSON document."""
        found: list[dict[str, Any]] = self.document["stages"]
        return found


def decode_state_file(name: str, content: bytes) -> StateFile:
    """Decode and check a state file. Error messages call it ``name``.

    Raises `UnreadablePlan`, with line and column, if the text is not JSON in UTF-8. Raises
    `UnimportableState`, with every problem, if the content cannot be imported.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"byte {content[error.start]:#04x}"
        raise UnreadablePlan(
            name, "UTF-8", why, *_find_line_and_column(content, error.start)
        ) from error
    document, named = _decode_text(name, text), list[str]()
    lines = map_pointers_to_lines(text)
    stages = document.get("stages") if isinstance(document, dict) else None
    if isinstance(stages, list):
        found = [convert_named_paths_to_lists(stage) for stage in stages]
        document = {**document, "stages": [stage for stage, _ in found]}
        named = [f"/stages/{n}/{field}" for n, (_, fields) in enumerate(found) for field in fields]
    state = StateFile(content, document, lines, named)
    wrong = [*find_import_problems(document)] or [*_find_unportable_values(document, "")]
    if wrong:
        said = [f"line {state.line(place)}, {place or '/'}: {why}" for place, why in wrong]
        raise UnimportableState(name, said)
    return state


def _decode_text(name: str, text: str) -> Any:
    if _measure_depth(text) > _DEPTH:
        raise UnimportableState(name, [f"the JSON has more than {_DEPTH} levels of nesting"])
    try:
        return decode_json(name, text)
    except UnreadablePlan as error:
        constants = (token.start() for token in _TOKEN.finditer(text) if token["constant"])
        first = next(constants, None)
        if first is None or error.data["line"] is not None:
            raise
        why = "JSON does not allow NaN and Infinity"
        raise UnreadablePlan(name, "JSON", why, *_find_line_and_column(text, first)) from error


def _find_unportable_values(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield each value that the log cannot store exactly: its JSON pointer and the reason."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _find_unportable_values(key, place)
            yield from _find_unportable_values(child, f"{place}/{escape_pointer_key(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_unportable_values(child, f"{place}/{index}")
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield place, "half a character (a surrogate) is not valid text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "the number is too large"
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield place, "the number has more than 64 bits; write the number as a string"


def parse_offset(text: str) -> tzinfo | None:
    """Return the time zone of a UTC offset such as ``+02:00`` or ``Z``.

    Returns None if the offset is invalid.
    """
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", "+00:00" if text == "Z" else text, re.ASCII)
    if found is None or int(found[2]) > 14 or int(found[3]) > 59:
        return None
    shift = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-shift if found[1] == "-" else shift)
