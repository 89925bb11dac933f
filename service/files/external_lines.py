"""Telling the lines of ``progress.log`` apart: which are ours, which are somebody else's.

The log says in pieces what the file should hold; `align` lays them beside what it does hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lifecycle.payload import models as p
from projections.files.progress_log import LogPiece, joined

#: A longer line of somebody else's is recorded in parts of so many bytes.
_PART = 12_000


class ForeignBytes(NamedTuple):
    """Bytes of somebody else's, behind the lines of the versions up to ``after``."""

    after: int
    content: bytes


class Alignment(NamedTuple):
    """What a part of the file holds, beside what it should.

    ``missing`` is to be appended. ``lost``: something that was there before is gone.
    """

    foreign: list[ForeignBytes]
    missing: bytes
    lost: bool


def align(found: bytes, fresh: bool, pieces: Sequence[LogPiece], shown: int) -> Alignment:
    """Lay ``pieces``, in order, beside the bytes ``found``.

    ``fresh``: what stands before ``found`` ends a line; it shows the versions up to ``shown``.
    The last of our lines may be torn: a crash came while it was written.
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
            # A line of ours that comes too early: one before it is gone.
            lost = lost or ours.get(found[position:end], -1) >= number
        fresh = found[end - 1 : end] == b"\n"
        position = end
    rest = pieces[number:]
    missing = joined(rest, fresh)[len(found) - position :]
    return Alignment(foreign, missing, lost or any(piece.external for piece in rest))


def _is_torn(found: bytes, position: int, due: bytes, piece: LogPiece) -> bool:
    left = len(found) - position
    return not piece.external and left < len(due) and found.startswith(due[:left], position)


def notes(foreign: Sequence[ForeignBytes]) -> list[p.NoteLogged]:
    """Return the notes that record somebody else's bytes, exactly and in order."""
    return [_note(after, part) for after, content in foreign for part in _parts(content)]


def _parts(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), _PART):
        yield content[start : start + _PART]


def _note(after: int, content: bytes) -> p.NoteLogged:
    text = content.decode(errors="replace").rstrip("\r\n")
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    shown = shown or "(an empty line)"
    exact = f"{shown}\n".encode() == content
    raw = None if exact else _in_base64(content)
    return p.NoteLogged(text=shown, kind="external", after=after, raw=raw)


def _in_base64(content: bytes) -> str:
    from base64 import b64encode  # few lines need it

    return b64encode(content).decode()
