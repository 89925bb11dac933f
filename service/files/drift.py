"""What somebody else did to the files that wfctl writes: told from our own, and recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from eventstore.event import RecordedEvent
from eventstore.private import require_bearable
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files import state_document
from projections.files.progress_log import LogPiece, joined, piece
from service.reading.log import WorkflowLog
from service.root.disk import (
    Mark,
    common_start,
    content_of,
    content_within,
    mark_of,
    open_within,
    write_whole,
)
from service.root.root import NEWER_PART, Root, Synced, digest

if TYPE_CHECKING:
    from projections.files.document_diff import FieldDifference


Listed: TypeAlias = "FieldDifference | dict[str, Any]"
"""A difference between two versions of a file: of a field, or of a run of lines."""
#: A drift lists so many differences; all of them can be had from the version that is kept.
_LISTED = 200
#: A value whose JSON is longer (bytes) is listed by its digest.
_LONGEST = 4_096
#: More lines than these are not laid beside each other one by one.
_COMPARED = 2_000


def keep(root: Root, name: str, found: bytes) -> str:
    """Keep foreign bytes under ``.wfctl/drift/``; return the path, relative to the root."""
    root.drift.mkdir(exist_ok=True)
    kept = _place(root, name, digest(found))
    if not kept.exists():
        write_whole(kept, found)
    return str(kept.relative_to(root.path))


def kept_before(root: Root, name: str, sha: str) -> bytes | None:
    """Return bytes that were kept under ``name``, by their SHA-256 in hex; None if none were."""
    found = content_of(_place(root, name, sha))
    return found if found is not None and digest(found) == sha else None


def _place(root: Root, name: str, sha: str) -> Path:
    return root.drift / f"{name}.{sha[:16]}"


def is_half_mended(
    root: Root, name: str, found: bytes | None, expected: bytes, known: Iterable[str | None]
) -> bool:
    """Whether a file begins as it should and goes on as a foreign version that is kept."""
    if found is None:
        return False
    same = common_start(found, expected)
    kept = (content_of(_place(root, name, sha or "")) or b"" for sha in known)
    return any(one[same:].startswith(found[same:]) for one in kept)


def detected(
    root: Root,
    file: str,
    base: int,
    expected: bytes,
    found: bytes | None,
    listed: Callable[[bytes], Sequence[Listed] | None],
    name: str | None = None,
) -> p.DriftDetected:
    """Say what was done to a file; a foreign version is kept under ``name``, else the file's.

    ``listed`` returns the differences, None for a file that cannot be read.
    """
    if found is None:
        return p.DriftDetected(file=file, kind="missing", base=base)
    sha = digest(found)
    if expected.startswith(found):
        return p.DriftDetected(file=file, kind="truncated", base=base, found_sha256=sha)
    every = listed(found)
    return p.DriftDetected(
        file=file,
        kind="unreadable" if every is None else "changed",
        base=base,
        kept_as=keep(root, name or file, found),
        found_sha256=sha,
        differences=[recordable(one) for one in list(every or ())[:_LISTED]],
        more=max(len(every or ()) - _LISTED, 0),
    )


def state_differences(base: Workflow, found: bytes) -> list[FieldDifference] | None:
    """Return what differs, field by field; None if ``found`` is no JSON object."""
    from projections.files.document_diff import differences
    from service.documents.plan_file import decode_json
    from service.errors import UnreadablePlan

    try:
        document = decode_json(state_document.FILE_NAME, found.decode())
        if not isinstance(document, dict):
            return None
        return differences(state_document.document(base), document)
    except (UnicodeDecodeError, UnreadablePlan, RecursionError):
        return None


def line_differences(expected: bytes, found: bytes) -> list[dict[str, Any]]:
    """Return the runs of lines that differ: ``line`` (from 1) in the file as it should be."""
    before = expected.decode(errors="replace").splitlines()
    after = found.decode(errors="replace").splitlines()
    start = common_start(before, after)
    before, after = before[start:], after[start:]
    end = common_start(before[::-1], after[::-1])
    before, after = before[: len(before) - end], after[: len(after) - end]
    runs = [("replace", 0, len(before), 0, len(after))]
    if len(before) + len(after) <= _COMPARED:
        from difflib import SequenceMatcher

        codes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        # Bytes that do not show in the text, such as the end of a line, differ all the same.
        runs = [run for run in codes if run[0] != "equal"] or [("bytes", 0, 0, 0, 0)]
    return [
        {"kind": kind, "line": start + i + 1, "old": before[i:j], "new": after[k:m]}
        for kind, i, j, k, m in runs
    ]


def recordable(difference: Listed) -> dict[str, Any]:
    """Return a difference as an event can hold it, whatever the values are."""
    known = difference if isinstance(difference, dict) else difference._asdict()
    held = {name: _storable(value) for name, value in known.items()}
    # Its steps are held one by one: only one of them may be too long.
    return held if "path" not in known else {**held, "path": [*map(_storable, known["path"])]}


def parts(
    one: FieldDifference, is_whole: Callable[[FieldDifference], bool]
) -> Iterator[FieldDifference]:
    """Take apart an object that came or went, as deep as ``is_whole`` does not stop it."""
    side = {"added": "new", "removed": "old"}.get(one.kind)
    value = getattr(one, side) if side is not None else None
    if side is None or not isinstance(value, dict) or is_whole(one):
        yield one
        return
    for key, held in value.items():
        yield from parts(one._replace(path=(*one.path, key), **{side: held}), is_whole)


def _storable(value: Any) -> Any:
    import json

    from eventstore.chain import canonical
    from eventstore.errors import InvalidData

    text = json.dumps(value)
    if len(text) > _LONGEST:
        return {"bytes": len(text), "sha256": digest(text.encode())}
    try:
        canonical({"data": {"differences": [{"value": value}]}})
    except InvalidData:
        return {"json": text}
    return value


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
    return [
        _note(after, content[start : start + _PART])
        for after, content in foreign
        for start in range(0, len(content), _PART)
    ]


def _note(after: int, content: bytes) -> p.NoteLogged:
    text = content.decode(errors="replace").rstrip("\r\n")
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    shown, raw = shown or "(an empty line)", None
    if f"{shown}\n".encode() != content:
        from base64 import b64encode  # few lines need it

        raw = b64encode(content).decode()
    return p.NoteLogged(text=shown, kind="external", after=after, raw=raw)


class LogView(NamedTuple):
    """The file as it was read.

    ``intact``: it begins with every byte that was left. ``newer`` are the last of those,
    ``tail`` what follows them. ``mark`` is None if the file is missing.
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
        is_trusted = mark == left.mark and not thorough
        file.seek(left.base if is_trusted else 0)
        content = file.read()
    if is_trusted:
        length = left.size - left.base
        newer, tail = content[:length], content[length:]
        return LogView(digest(newer) == left.sha256, newer, tail, mark)
    newer, tail = content[left.base : left.size], content[left.size :]
    return LogView(left.shows(content), newer, tail, mark)


def left_now(
    root: Path, name: str, before: Synced, view: LogView, added: bytes, version: int, mark: Mark
) -> Synced:
    """Return what to remember of the file once it was looked at and ``added`` was appended.

    Its newer part is joined to the older one, once it is long enough.
    """
    part = view.newer + view.tail + added
    size, fresh = before.base + len(part), part.endswith(b"\n") if part else before.fresh
    left = replace(before, version=version, size=size, sha256=digest(part), mark=mark, fresh=fresh)
    if len(part) <= NEWER_PART:
        return left
    content = (content_within(root, name) or b"")[:size]
    if not left.shows(content):
        # Somebody changed the older part unseen: without a mark, the next look is thorough.
        return replace(left, mark=[])
    return replace(left, base=size, base_sha256=digest(content), sha256=digest(b""))


@dataclass(slots=True)
class Trail:
    """What came after a version: the pieces of ``progress.log``, what was already detected.

    ``state`` is the newest, None if there is no workflow. ``detected`` holds, for each file,
    the digests of the foreign versions that were recorded, None for a missing one.
    """

    pieces: list[LogPiece] = field(default_factory=list)
    detected: dict[str, list[str | None]] = field(default_factory=dict)
    state: Workflow | None = None


def trail(log: WorkflowLog, after: int, start: Workflow | None, shown: int) -> Trail:
    """Return what came after version ``after``; ``start``: the state there, where it is known.

    The state is the one that the pieces lead to. Asked for once they are read, it could be a newer
    one, as others append meanwhile, and a file that lacks their lines would count as showing them.
    """
    start = log.state(after) if start is None and after else start
    return whole(log.steps(after, start), start, shown)


def is_ours(log: WorkflowLog, left: Synced | None, found: bytes | None) -> bool:
    """Whether ``workflow-state.json`` is as it was left, or shows a version after that."""
    if found is None or left is None:
        return left is None and (found is None or was_written(log, 0, found))
    return left.sha256 == digest(found) or was_written(log, left.version, found)


def was_written(log: WorkflowLog, after: int, found: bytes) -> bool:
    """Whether ``workflow-state.json`` shows a version after ``after``, if not yet remembered so."""
    return any(
        state.updated[:19].encode() in found and state_document.render(state) == found
        for _, state in log.steps(after)
    )


def whole(
    steps: Iterable[tuple[RecordedEvent, Workflow]], start: Workflow | None = None, shown: int = 0
) -> Trail:
    """Return the trail of all steps, from ``start``; the file has the lines up to ``shown``."""
    found = Trail(state=start)
    for event, state in steps:
        part = piece(event, state) if event.version > shown else None
        if part is not None:
            found.pieces.append(part)
        if event.type == "drift.detected":
            found.detected.setdefault(event.data["file"], []).append(event.data["found_sha256"])
        found.state = state
    found.pieces.sort(key=lambda part: part.place)
    return found
