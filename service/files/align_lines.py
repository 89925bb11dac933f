"""Align the lines of an edited progress log with the lines that wfctl wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lifecycle.payload import models as p
from projections.files.progress_log import LogPiece, join_pieces

#: Maximum size in bytes of a note in the log. A longer line from another program is recorded in
#: several notes.
_PART = 12_000


class ForeignBytes(NamedTuple):
    """Bytes that another program wrote to progress.log, and their position.

    They follow the lines of all versions up to ``after``.
    """

    after: int
    content: bytes


class Alignment(NamedTuple):
    """The result of comparing progress.log with its expected lines.

    ``foreign`` contains lines of other programs, and ``missing`` contains the bytes to append.
    ``lost`` means that earlier content was removed.
    """

    foreign: list[ForeignBytes]
    missing: bytes
    lost: bool


def align_lines(found: bytes, fresh: bool, pieces: Sequence[LogPiece], shown: int) -> Alignment:
    """Compare the content of progress.log with the expected lines, in order.

    ``found`` is the content after the lines up to version ``shown``. ``fresh`` means that the text
    before it ends with a newline. After a crash, the last line of wfctl may be incomplete.
    """
    foreign: list[ForeignBytes] = []
    ours = {piece.content: n for n, piece in enumerate(pieces) if not piece.external}
    position = number = 0
    lost = False
    while position < len(found):
        due = pieces[number].bytes_to_append(fresh) if number < len(pieces) else None
        if due is not None and found.startswith(due, position):
            shown = max(shown, pieces[number].version)
            number += 1
            end = position + len(due)
        elif due is not None and _is_incomplete_line(found, position, due, pieces[number]):
            break
        else:
            end = found.find(b"\n", position) + 1 or len(found)
            foreign.append(ForeignBytes(shown, found[position:end]))
            # This line of wfctl comes before an expected earlier line, so the earlier line was
            # removed.
            lost = lost or ours.get(found[position:end], -1) >= number
        fresh = found[end - 1 : end] == b"\n"
        position = end
    rest = pieces[number:]
    missing = join_pieces(rest, fresh)[len(found) - position :]
    return Alignment(foreign, missing, lost or any(piece.external for piece in rest))


def _is_incomplete_line(found: bytes, position: int, due: bytes, piece: LogPiece) -> bool:
    left = len(found) - position
    return not piece.external and left < len(due) and found.startswith(due[:left], position)


def build_notes(foreign: Sequence[ForeignBytes]) -> list[p.NoteLogged]:
    """Return the notes that record the exact bytes of other programs, in order."""
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
