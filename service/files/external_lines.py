"""Telling the lines of ``progress.log`` apart: which are ours, which are somebody else's.

The log says in pieces what the file should hold; `align` lays them beside what it does hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from eventstore.event import RecordedEvent
from eventstore.private import require_bearable
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files import state_document
from projections.files.progress_log import LogPiece, joined, piece
from service.reading.log import WorkflowLog
from service.root.disk import Mark, mark_of
from service.root.safe_open import content_within, open_within
from service.root.sync import NEWER_PART, Synced, digest

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


class LogView(NamedTuple):
    """The file as it was read.

    ``intact``: it begins with every byte that was left. ``newer`` are the last of those,
    ``tail`` what follows them. ``mark`` is None where the file is missing.
    """

    intact: bool
    newer: bytes
    tail: bytes
    mark: Mark | None


def look(root: Path, name: str, left: Synced | None, *, thorough: bool = False) -> LogView:
    """Read the file of this name in the root beside what was left of it; raises `OutsideRoot`.

    A file that nobody touched is trusted but for its newer part; ``thorough`` reads it whole.
    """
    try:
        descriptor = open_within(root, name)
    except FileNotFoundError:
        return LogView(left is None or left.size == 0, b"", b"", None)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        require_bearable(descriptor, root / name)
        mark = mark_of(os.fstat(descriptor))
        if left is None:
            return LogView(True, b"", file.read(), mark)
        if mark == left.mark and not thorough:
            file.seek(left.base)
            return _trusted(file.read(), left, mark)
        return _verified(file.read(), left, mark)


def _trusted(newer: bytes, left: Synced, mark: Mark) -> LogView:
    length = left.size - left.base
    intact = digest(newer[:length]) == left.sha256
    return LogView(intact, newer[:length], newer[length:], mark)


def _verified(content: bytes, left: Synced, mark: Mark) -> LogView:
    newer, tail = content[left.base : left.size], content[left.size :]
    return LogView(left.shows(content), newer, tail, mark)


def left_now(before: Synced, view: LogView, added: bytes, version: int, mark: Mark) -> Synced:
    """Return what to remember of the file once it was looked at and ``added`` was appended."""
    part = view.newer + view.tail + added
    fresh = part.endswith(b"\n") if part else before.fresh
    return replace(
        before,
        version=version,
        size=before.base + len(part),
        sha256=digest(part),
        mark=mark,
        fresh=fresh,
    )


def joined_up(root: Path, name: str, left: Synced) -> Synced:
    """Return ``left`` with its newer part joined to the older one, once it is long enough."""
    if left.size - left.base <= NEWER_PART:
        return left
    content = (content_within(root, name) or b"")[: left.size]
    if not left.shows(content):
        # Somebody changed the older part unseen: without a mark, the next look is thorough.
        return replace(left, mark=[])
    return replace(left, base=left.size, base_sha256=digest(content), sha256=digest(b""))


@dataclass(slots=True)
class Trail:
    """What came after a version: the pieces of ``progress.log``, what was already detected.

    ``state`` is the newest, None where there is no workflow. ``detected`` holds, for each file,
    the digests of the foreign versions that were recorded, None for a missing one.
    """

    pieces: list[LogPiece] = field(default_factory=list)
    detected: dict[str, list[str | None]] = field(default_factory=dict)
    state: Workflow | None = None

    def add(self, event: RecordedEvent, state: Workflow, shown: int) -> None:
        """Take in an event; the lines up to version ``shown`` are in the file already."""
        part = piece(event, state) if event.version > shown else None
        if part is not None:
            self.pieces.append(part)
        if event.type == "drift.detected":
            self.detected.setdefault(event.data["file"], []).append(event.data["found_sha256"])
        self.state = state


def trail(log: WorkflowLog, after: int, start: Workflow | None, shown: int) -> Trail:
    """Return what came after version ``after``; ``start``: the state there, where it is known.

    The state is the one that the pieces lead to. Asked for once they are read, it could be a newer
    one, as others append meanwhile, and a file that lacks their lines would count as showing them.
    """
    if start is None and after:
        start = log.state(after)
    found = Trail(state=start)
    for event, state in log.steps(after, start):
        found.add(event, state, shown)
    found.pieces.sort(key=_place)
    return found


def was_written(log: WorkflowLog, after: int, found: bytes) -> bool:
    """Whether ``workflow-state.json`` shows a version after ``after``, if not yet remembered so.

    It is written before that is noted: a crash may have come in between, or this look.
    """
    return any(
        state.updated[:19].encode() in found and state_document.render(state) == found
        for _, state in log.steps(after)
    )


def whole(steps: Iterable[tuple[RecordedEvent, Workflow]]) -> Trail:
    """Return the whole log's trail."""
    found = Trail()
    for event, state in steps:
        found.add(event, state, 0)
    found.pieces.sort(key=_place)
    return found


def _place(part: LogPiece) -> tuple[int, int, int]:
    return part.place
