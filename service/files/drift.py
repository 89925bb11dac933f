"""Changes by other programs in the files that wfctl writes: recognized and recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from eventstore.event import RecordedEvent
from eventstore.private_files import require_bearable
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files import state_document
from projections.files.progress_log import LogPiece, build_piece
from service.reading.log import WorkflowLog
from service.root.atomic_files import (
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
#: Maximum number of differences that a drift lists. The kept version has all of them.
_LISTED = 200
#: Maximum size in bytes of a listed value. A larger value is listed by its digest.
_LONGEST = 4_096
#: Maximum number of lines that are compared one by one.
_COMPARED = 2_000


def keep_foreign_version(root: Root, name: str, found: bytes) -> str:
    """Keep foreign bytes under ``.wfctl/drift/``. Return the path, relative to the root."""
    root.drift.mkdir(exist_ok=True)
    kept = _kept_path(root, name, digest(found))
    if not kept.exists():
        write_whole(kept, found)
    return str(kept.relative_to(root.path))


def read_kept_version(root: Root, name: str, sha: str) -> bytes | None:
    """Return the bytes kept under ``name`` by their SHA-256 in hex, or None if not there."""
    found = content_of(_kept_path(root, name, sha))
    return found if found is not None and digest(found) == sha else None


def _kept_path(root: Root, name: str, sha: str) -> Path:
    return root.drift / f"{name}.{sha[:16]}"


def is_half_mended(
    root: Root, name: str, found: bytes | None, expected: bytes, known: Iterable[str | None]
) -> bool:
    """Return whether a file starts correctly and continues as a kept foreign version."""
    if found is None:
        return False
    same = common_start(found, expected)
    kept = (content_of(_kept_path(root, name, sha or "")) or b"" for sha in known)
    return any(one[same:].startswith(found[same:]) for one in kept)


def build_drift_event(
    root: Root,
    file: str,
    base: int,
    expected: bytes,
    found: bytes | None,
    listed: Callable[[bytes], Sequence[Listed] | None],
    name: str | None = None,
) -> p.DriftDetected:
    """Return the event for a changed file, after keeping the foreign version under ``name``.

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
        kept_as=keep_foreign_version(root, name or file, found),
        found_sha256=sha,
        differences=[make_recordable(one) for one in list(every or ())[:_LISTED]],
        more=max(len(every or ()) - _LISTED, 0),
    )


def state_differences(base: Workflow, found: bytes) -> list[FieldDifference] | None:
    """Return the differences field by field, or None if ``found`` is not a JSON object."""
    from projections.files.document_diff import find_differences
    from service.documents.plan_file import decode_json
    from service.errors import UnreadablePlan

    try:
        document = decode_json(state_document.FILE_NAME, found.decode())
        if not isinstance(document, dict):
            return None
        return find_differences(state_document.build_document(base), document)
    except (UnicodeDecodeError, UnreadablePlan, RecursionError):
        return None


def line_differences(expected: bytes, found: bytes) -> list[dict[str, Any]]:
    """Return the runs of lines that differ. ``line`` counts from 1 in the correct file."""
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
        # Bytes that do not show in the text, such as line ends, count as a difference too.
        runs = [run for run in codes if run[0] != "equal"] or [("bytes", 0, 0, 0, 0)]
    return [
        {"kind": kind, "line": start + i + 1, "old": before[i:j], "new": after[k:m]}
        for kind, i, j, k, m in runs
    ]


def make_recordable(difference: Listed) -> dict[str, Any]:
    """Return a difference in a form that an event can store, for any values."""
    known = difference if isinstance(difference, dict) else difference._asdict()
    held = {name: _make_storable(value) for name, value in known.items()}
    # The steps of the path are checked one by one, because a single step may be too long.
    return held if "path" not in known else {**held, "path": [*map(_make_storable, known["path"])]}


def split_difference(
    one: FieldDifference, is_whole: Callable[[FieldDifference], bool]
) -> Iterator[FieldDifference]:
    """Yield the parts of an added or removed object, down to where ``is_whole`` is true."""
    side = {"added": "new", "removed": "old"}.get(one.kind)
    value = getattr(one, side) if side is not None else None
    if side is None or not isinstance(value, dict) or is_whole(one):
        yield one
        return
    for key, held in value.items():
        yield from split_difference(one._replace(path=(*one.path, key), **{side: held}), is_whole)


def _make_storable(value: Any) -> Any:
    import json

    from eventstore.chain import canonical_json
    from eventstore.errors import InvalidData

    text = json.dumps(value)
    if len(text) > _LONGEST:
        return {"bytes": len(text), "sha256": digest(text.encode())}
    try:
        canonical_json({"data": {"differences": [{"value": value}]}})
    except InvalidData:
        return {"json": text}
    return value


class LogView(NamedTuple):
    """The file as it was read.

    ``intact`` means that the file starts with all bytes that wfctl left. ``newer`` has the last of
    these bytes, ``tail`` the bytes after them. ``mark`` is None if the file is missing.
    """

    intact: bool
    newer: bytes
    tail: bytes
    mark: Mark | None


def read_log_view(root: Path, name: str, left: Synced | None, *, thorough: bool = False) -> LogView:
    """Read a file in the root and compare it with its remembered state. Raises `OutsideRoot`.

    For an untouched file, only the newer part is read; ``thorough`` reads the whole file.
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


def remember_log(
    root: Path, name: str, before: Synced, view: LogView, added: bytes, version: int, mark: Mark
) -> Synced:
    """Return the state to remember after ``added`` was appended to the file.

    Joins the newer part to the older part if it is long enough.
    """
    part = view.newer + view.tail + added
    size, fresh = before.base + len(part), part.endswith(b"\n") if part else before.fresh
    left = replace(before, version=version, size=size, sha256=digest(part), mark=mark, fresh=fresh)
    if len(part) <= NEWER_PART:
        return left
    content = (content_within(root, name) or b"")[:size]
    if not left.shows(content):
        # Another program changed the older part. Without a mark, the next check is thorough.
        return replace(left, mark=[])
    return replace(left, base=size, base_sha256=digest(content), sha256=digest(b""))


@dataclass(slots=True)
class Trail:
    """The changes after a version: pieces of ``progress.log``, and recorded foreign versions.

    ``state`` is the newest state, None without a workflow. ``detected`` has, for each file, the
    digests of the recorded foreign versions, None for a missing file.
    """

    pieces: list[LogPiece] = field(default_factory=list)
    detected: dict[str, list[str | None]] = field(default_factory=dict)
    state: Workflow | None = None


def build_trail(log: WorkflowLog, after: int, start: Workflow | None, shown: int) -> Trail:
    """Return the changes after version ``after``. ``start`` is the state there, if known.

    The state is the one after the last piece. A state that is read later could be newer, because
    others may append meanwhile; a file without their lines would then count as up to date.
    """
    start = log.state(after) if start is None and after else start
    return collect_trail(log.steps(after, start), start, shown)


def is_ours(log: WorkflowLog, left: Synced | None, found: bytes | None) -> bool:
    """Return whether ``workflow-state.json`` is as wfctl left it, or shows a later version."""
    if found is None or left is None:
        return left is None and (found is None or was_written_by_wfctl(log, 0, found))
    return left.sha256 == digest(found) or was_written_by_wfctl(log, left.version, found)


def was_written_by_wfctl(log: WorkflowLog, after: int, found: bytes) -> bool:
    """Return whether ``workflow-state.json`` shows a version after ``after``."""
    return any(
        state.updated[:19].encode() in found and state_document.render_state(state) == found
        for _, state in log.steps(after)
    )


def collect_trail(
    steps: Iterable[tuple[RecordedEvent, Workflow]], start: Workflow | None = None, shown: int = 0
) -> Trail:
    """Return the trail of all steps from ``start``. The file has the lines up to ``shown``."""
    found = Trail(state=start)
    for event, state in steps:
        part = build_piece(event, state) if event.version > shown else None
        if part is not None:
            found.pieces.append(part)
        if event.type == "drift.detected":
            found.detected.setdefault(event.data["file"], []).append(event.data["found_sha256"])
        found.state = state
    found.pieces.sort(key=lambda part: part.place)
    return found
