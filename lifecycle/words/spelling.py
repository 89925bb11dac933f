"""How the numbers of a document were spelled, where canonical JSON has other letters for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Spelling = dict[str, str]
"""JSON pointer (RFC 6901) of a number → its letters."""


def spelling_of(text: str) -> Spelling:
    """Return the numbers of a valid JSON text that would be written in other letters today."""
    return dict(_spelled(json.loads(text, parse_float=_Float, parse_int=_Int), ""))


class _Float(str):
    """The letters of a number with a fraction or an exponent."""

    @property
    def usual(self) -> str:
        return json.dumps(float(self))


class _Int(str):
    """The letters of a whole number."""

    @property
    def usual(self) -> str:
        return json.dumps(int(self))


def _spelled(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _Float | _Int):
        if value != value.usual:
            yield pointer, str(value)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _spelled(child, f"{pointer}/{_escape(key)}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _spelled(child, f"{pointer}/{index}")


def keys_of(pointer: str) -> list[str]:
    """Return the keys that a pointer is made of."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def value_at(value: Any, pointer: str) -> Any:
    """Return the value that a pointer leads to; raises LookupError, TypeError, ValueError."""
    for key in keys_of(pointer):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
