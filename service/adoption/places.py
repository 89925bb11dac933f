"""Where in a JSON text its values stand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|(?P<constant>-?Infinity|NaN)', re.DOTALL)


def lines_of(text: str) -> dict[str, int]:
    """Return JSON pointer (RFC 6901) → line, from 1, of every value of a valid JSON text."""
    line, last, found = 1, 0, {}
    for pointer, position in _walk(text):
        line += text.count("\n", last, position)
        found[pointer], last = line, position
    return found


def _walk(text: str) -> Iterator[tuple[str, int]]:
    """Yield each value's pointer and where it begins (members: where their key does)."""
    yield from _value(text, _skip(text, 0), "")[1]


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
        child = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
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


def place_of_constant(text: str) -> tuple[int, int] | None:
    """Return line and column, from 1, of the first NaN or Infinity, None where there is none."""
    for token in _TOKEN.finditer(text):
        if token["constant"]:
            start = token.start()
            return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    return None


def depth_of(text: str) -> int:
    """Return how deep objects and arrays are nested at most; the text need not be valid."""
    deepest = depth = 0
    for bracket in re.sub(r'"(?:\\.|[^"\\])*"|[^\[\]{}"]+', "", text, flags=re.DOTALL):
        depth += bracket in "[{" or -(bracket in "]}")
        deepest = max(deepest, depth)
    return deepest
