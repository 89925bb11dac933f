"""Pieces of text that are put into a file of somebody else, and cut out of it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_COMMA = re.compile(r"\s*,")


class Piece(NamedTuple):
    """A text, and where it was put: its first character's place in the text of then."""

    at: int
    text: str


def put(text: str, piece: Piece) -> str:
    """Return the text with the piece in its place."""
    return text[: piece.at] + piece.text + text[piece.at :]


def block(text: str, body: str, begin: str, end: str) -> list[Piece]:
    """Return the piece that puts marked lines at the end of a text; none where they are there."""
    if begin in text:
        return []
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return [Piece(len(text), f"{gap}{begin}\n{body.strip()}\n{end}\n")]


def cut(
    text: str, pieces: Sequence[Piece], is_whole: Callable[[str], bool]
) -> tuple[str, list[Piece]]:
    """Return the text without the pieces, and those that are not in it as they were put.

    They are cut in the reverse order. ``is_whole`` says whether a text can be read as what its file
    is: what somebody wrote behind a piece may have needed its comma.
    """
    left: list[Piece] = []
    for piece in reversed(pieces):
        found = _cut(text, piece, is_whole)
        if found is None:
            left.append(piece)
        else:
            text = found
    return text, left[::-1]


def _cut(text: str, piece: Piece, is_whole: Callable[[str], bool]) -> str | None:
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
