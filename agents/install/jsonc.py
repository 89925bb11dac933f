"""JSON with comments: read with the place of each value, and added to; the rest is not touched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.install.pieces import Piece, put

_GAP = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN = re.compile(r"[^\s,\]}/]+")
_STEP = "  "
#: Depth of values; deeper is none of a client's settings.
_DEEPEST = 100


@dataclass(slots=True)
class Node:
    """A value and where it stands; ``inner`` are members by key, or items by number."""

    start: int
    end: int
    value: Any
    inner: dict[Any, Node] = field(default_factory=dict)


def read(text: str) -> Node:
    """Return the document; raises `ValueError` for what is no JSON, comments aside."""
    at = _behind_gap(text, 1 if text.startswith("\ufeff") else 0)
    node = _node(text, at, 0)
    if _behind_gap(text, node.end) != len(text):
        raise ValueError(f"expected the end at character {node.end}")
    return node


def _behind_gap(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def _node(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise ValueError("expected fewer levels")
    if text[at : at + 1] == "{":
        return _object(text, at, depth)
    if text[at : at + 1] == "[":
        return _array(text, at, depth)
    found = (_TEXT if text[at : at + 1] == '"' else _PLAIN).match(text, at)
    if found is None:
        raise ValueError(f"expected a value at character {at}")
    return Node(at, found.end(), json.loads(found.group()))


def _object(text: str, at: int, depth: int) -> Node:
    node = Node(at, at, {})
    here = _behind_gap(text, at + 1)
    while text[here : here + 1] != "}":
        key = _TEXT.match(text, here)
        here = _behind_gap(text, key.end()) if key else here
        if key is None or text[here : here + 1] != ":":
            raise ValueError(f"expected a key and a colon at character {here}")
        inner = _node(text, _behind_gap(text, here + 1), depth + 1)
        name = json.loads(key.group())
        node.inner[name], node.value[name] = inner, inner.value
        here = _next(text, inner.end, "}")
    node.end = here + 1
    return node


def _array(text: str, at: int, depth: int) -> Node:
    node = Node(at, at, [])
    here = _behind_gap(text, at + 1)
    while text[here : here + 1] != "]":
        inner = _node(text, here, depth + 1)
        node.inner[len(node.value)] = inner
        node.value.append(inner.value)
        here = _next(text, inner.end, "]")
    node.end = here + 1
    return node


def _next(text: str, at: int, close: str) -> int:
    """Return where the next inner value begins, or the end stands; a last comma may be there."""
    here = _behind_gap(text, at)
    if text[here : here + 1] == ",":
        return _behind_gap(text, here + 1)
    if text[here : here + 1] != close:
        raise ValueError(f"expected a comma or {close} at character {here}")
    return here


def added(text: str, more: Mapping[str, Any]) -> list[Piece]:
    """Return the pieces that put ``more`` into a document, one after another; order and comments
    stay.

    Objects at the top and lists are added to. An entry of an object at the top is put in whole, or,
    where one of its name is there, not at all (`taken`). Raises `ValueError` where the document is
    no JSON object, or where one that is to be added to is something else, such as null.
    """
    if not text.strip():
        return [Piece(len(text), json.dumps(more, indent=len(_STEP), ensure_ascii=False) + "\n")]
    pieces: list[Piece] = []
    while True:
        document = read(text)
        if not isinstance(document.value, dict):
            raise ValueError("expected an object")
        piece = next(_missing(text, document, more, 1), None)
        if piece is None:
            return pieces
        pieces.append(piece)
        text = put(text, piece)


def taken(text: str, more: Mapping[str, Any]) -> list[str]:
    """Return the entries of ``more`` whose names the document gives to something else."""
    there = read(text).value
    return [
        f"{key}.{name}"
        for key, entries in more.items()
        for name, value in entries.items()
        if not isinstance(value, list) and there[key].get(name, value) != value
    ]


def _missing(
    text: str, node: Node, more: Mapping[str, Any], depth: int, above: str = ""
) -> Iterator[Piece]:
    for key, value in more.items():
        inner = node.inner.get(key)
        if inner is None:
            yield _inserted(text, node, f"{json.dumps(key)}: ", value, depth)
        elif isinstance(value, list):
            _expect(inner, list, above + key)
            for one in value:
                if one not in inner.value:
                    yield _inserted(text, inner, "", one, depth + 1)
        elif depth == 1:
            _expect(inner, dict, above + key)
            yield from _missing(text, inner, value, depth + 1, f"{key}.")


def _expect(node: Node, kind: type, name: str) -> None:
    if not isinstance(node.value, kind):
        named = "an object" if kind is dict else "a list"
        raise ValueError(f"`{name}` is {json.dumps(node.value)[:80]}, which is not {named}")


def _inserted(text: str, node: Node, name: str, value: Any, depth: int) -> Piece:
    last = node.inner[list(node.inner)[-1]] if node.inner else None
    step = _STEP * depth
    shown = json.dumps(value, indent=len(_STEP), ensure_ascii=False).replace("\n", f"\n{step}")
    if last is not None:
        return Piece(last.end, f",\n{step}{name}{shown}")
    return Piece(node.start + 1, f"\n{step}{name}{shown}\n{_STEP * (depth - 1)}")
