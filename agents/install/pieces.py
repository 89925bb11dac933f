"""Pieces of text that are put into a file of somebody else, and cut out of it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

_COMMA = re.compile(r"\s*,")
_TEXT = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])")
#: All before the first member of an object.
_BEGIN = re.compile(r"\ufeff?(?:\s|//[^\n]*|/\*.*?\*/)*\{", re.DOTALL)


class SettingsPiece(NamedTuple):
    """A text, and where it was put: its first character's place in the text of then."""

    at: int
    text: str


def put(text: str, piece: SettingsPiece) -> str:
    """Return the text with the piece in its place."""
    return text[: piece.at] + piece.text + text[piece.at :]


def block(text: str, body: str, begin: str, end: str) -> list[SettingsPiece]:
    """Return the piece that puts marked lines at the end of a text; none where they are there."""
    if begin in text:
        return []
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return [SettingsPiece(len(text), f"{gap}{begin}\n{body.strip()}\n{end}\n")]


def read_json(text: str) -> Any:
    """Return a document of JSON that may have comments; raises `ValueError`."""
    plain = _COMMENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    try:
        return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", plain))
    except RecursionError:
        raise ValueError("expected fewer levels") from None


def members(text: str, more: Mapping[str, Any]) -> list[SettingsPiece]:
    """Return the piece that puts the keys of ``more`` that an object lacks before all it has.

    Raises `ValueError` where the text is no object of JSON.
    """
    if not text.strip():
        return [SettingsPiece(len(text), json.dumps(more, indent=2, ensure_ascii=False) + "\n")]
    there = read_json(text)
    begin = _BEGIN.match(text)
    if not isinstance(there, dict) or begin is None:
        raise ValueError("expected an object")
    new = {key: value for key, value in more.items() if key not in there}
    if not new:
        return []
    lines = json.dumps(new, indent=2, ensure_ascii=False).removeprefix("{").removesuffix("\n}")
    return [SettingsPiece(begin.end(), lines + ("," if there else "\n"))]


def lacking(text: str, more: Mapping[str, Any]) -> list[str]:
    """Return the keys of ``more`` whose values in an object do not hold all of ours."""
    there = read_json(text)
    return [key for key, value in more.items() if not _holds(there.get(key), value)]


def _holds(there: Any, ours: Any) -> bool:
    if isinstance(ours, Mapping) and isinstance(there, dict):
        return all(_holds(there.get(key), value) for key, value in ours.items())
    if isinstance(ours, list) and isinstance(there, list):
        return all(one in there for one in ours)
    return bool(there == ours)


def cut(
    text: str, pieces: Sequence[SettingsPiece], is_whole: Callable[[str], bool]
) -> tuple[str, list[SettingsPiece]]:
    """Return the text without the pieces, and those that are not in it as they were put.

    They are cut in the reverse order. ``is_whole`` says whether a text can be read as what its file
    is: what somebody wrote behind a piece may have needed its comma.
    """
    left: list[SettingsPiece] = []
    for piece in reversed(pieces):
        found = _cut(text, piece, is_whole)
        if found is None:
            left.append(piece)
        else:
            text = found
    return text, left[::-1]


def _cut(text: str, piece: SettingsPiece, is_whole: Callable[[str], bool]) -> str | None:
    # Somebody who writes behind it may take its last newline away.
    part = piece.text if piece.text in text else piece.text.rstrip()
    at = piece.at if text.startswith(part, piece.at) else _only(text, part)
    if at is None:
        return None
    before, behind = text[:at], text[at + len(part) :]
    comma = _COMMA.match(behind)
    ways = [before + behind, *([before + behind[comma.end() :]] if comma else [])]
    return next((way for way in ways if is_whole(way)), None)


def _only(text: str, part: str) -> int | None:
    """Return where a part stands that is there once, else None."""
    at = text.find(part)
    return at if at >= 0 and text.find(part, at + 1) < 0 else None
