"""Align the lines of an edited progress log with the lines that wfctl wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.payload import models as p
from projections.files.progress_log import LogPiece, join_pieces

if TYPE_CHECKING:
    pass


#: Maximum size in bytes of one note. A longer foreign line is recorded in parts.
_PART = 12_000


class ForeignBytes(NamedTuple):
    """Bytes of another program, after the lines of the versions up to ``after``."""

    after: int
    content: bytes


class Alignment(NamedTuple):
    """A comparison of the file with the expected lines.

    ``missing`` is to be appended. ``lost`` means that earlier content is gone.
    """

    foreign: list[ForeignBytes]
    missing: bytes
    lost: bool


def align_lines(found: bytes, fresh: bool, pieces: Sequence[LogPiece], shown: int) -> Alignment:
    """Compare the bytes ``found`` with the expected ``pieces``, in order.

    ``fresh`` means that a line ends before ``found``, which shows the versions up to ``shown``. The
    last line of wfctl may be incomplete after a crash.
    """
    foreign: list[ForeignBytes] = []
    ours = {piece.content: n for n, piece in enumerate(pieces) if not piece.external}
    position = number = 0
    lost = False
    while position < len(found):
        due = pieces[number].due(fresh) if number < len(pieces) else None
        if due is not None and found.startswith(due, position):
            shown = max(shown, pieces[number].version)
            number += 1
            end = position + len(due)
        elif due is not None and _is_torn(found, position, due, pieces[number]):
            break
        else:
            end = found.find(b"\n", position) + 1 or len(found)
            foreign.append(ForeignBytes(shown, found[position:end]))
            # A later line of wfctl appears too early, so a line before it is missing.
            lost = lost or ours.get(found[position:end], -1) >= number
        fresh = found[end - 1 : end] == b"\n"
        position = end
    rest = pieces[number:]
    missing = join_pieces(rest, fresh)[len(found) - position :]
    return Alignment(foreign, missing, lost or any(piece.external for piece in rest))


def _is_torn(found: bytes, position: int, due: bytes, piece: LogPiece) -> bool:
    left = len(found) - position
    return not piece.external and left < len(due) and found.startswith(due[:left], position)


def build_notes(foreign: Sequence[ForeignBytes]) -> list[p.NoteLogged]:
    """Return the notes that record foreign bytes, exactly and in order."""
    return [
        _build_note(after, content[start : start + _PART])
        for after, content in foreign
        for start in range(0, len(content), _PART)
    ]


def _build_note(after: int, content: bytes) -> p.NoteLogged:
    text = content.decode(errors="replace").rstrip("\r\n")
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    shown, raw = shown or "(an empty line)", None
    if f"{shown}\n".encode() != content:
        from base64 import b64encode  # needed by few lines

        raw = b64encode(content).decode()
    return p.NoteLogged(text=shown, kind="external", after=after, raw=raw)
