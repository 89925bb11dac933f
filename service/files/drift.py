"""Detect and record changes that other programs or people made to generated files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files import state_document
from service.reading.log import WorkflowLog
from service.root.atomic_files import (
    common_start,
    content_of,
    write_whole,
)
from service.root.root import Root
from service.root.sync_record import Synced, digest

if TYPE_CHECKING:
    from projections.files.document_diff import FieldDifference


Listed: TypeAlias = "FieldDifference | dict[str, Any]"
"""A difference between two versions of a file: of a field, or of a run of lines."""
#: Maximum number of differences that a drift event lists. The stored copy of the edited file
#: contains all of them.
_LISTED = 200
#: Maximum size in bytes of a value in a list of differences. For a larger value, its digest is
#: listed.
_LONGEST = 4_096
#: Maximum number of lines to compare one by one.
_COMPARED = 2_000


def keep_foreign_version(root: Root, name: str, found: bytes) -> str:
    """Store a copy of a file that another program changed, in ``.wfctl/drift/``.

    Return the path of the copy, relative to the workflow folder.
    """
    root.drift.mkdir(exist_ok=True)
    kept = _kept_path(root, name, digest(found))
    if not kept.exists():
        write_whole(kept, found)
    return str(kept.relative_to(root.path))


def read_kept_version(root: Root, name: str, sha: str) -> bytes | None:
    """Return the stored copy of a changed file, or None if it does not exist.

    ``sha`` is the SHA-256 of the copy in hex.
    """
    found = content_of(_kept_path(root, name, sha))
    return found if found is not None and digest(found) == sha else None


def _kept_path(root: Root, name: str, sha: str) -> Path:
    return root.drift / f"{name}.{sha[:16]}"


def is_half_restored(
    root: Root, name: str, found: bytes | None, expected: bytes, known: Iterable[str | None]
) -> bool:
    """Return whether an interrupted command left a file half restored.

    Such a file starts with the correct content, and continues as a known changed version.
    """
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
    """Store a copy of a changed file, and return the event that records the change.

    ``name`` is the name of the copy. ``listed`` returns the differences, or None if the file is not
    readable.
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
    """Return the differing fields of two versions of ``workflow-state.json``.

    Return None if ``found`` is not a JSON object.
    """
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
    """Return the groups of differing lines. ``line`` is a number in the correct file."""
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
        # If no line differs, the difference is in bytes that the decoded text does not show, such
        # as line ends. Report this as one difference.
        runs = [run for run in codes if run[0] != "equal"] or [("bytes", 0, 0, 0, 0)]
    return [
        {"kind": kind, "line": start + i + 1, "old": before[i:j], "new": after[k:m]}
        for kind, i, j, k, m in runs
    ]


def make_recordable(difference: Listed) -> dict[str, Any]:
    """Return a difference in a form that an event can store.

    Very large values are replaced by their digests.
    """
    known = difference if isinstance(difference, dict) else difference._asdict()
    held = {name: _make_storable(value) for name, value in known.items()}
    # Check each key of the path separately, because a single key may be too long to store.
    return held if "path" not in known else {**held, "path": [*map(_make_storable, known["path"])]}


def split_difference(
    one: FieldDifference, is_whole: Callable[[FieldDifference], bool]
) -> Iterator[FieldDifference]:
    """Split an added or removed object into its fields, recursively.

    Fields for which ``is_whole`` returns true are not split further.
    """
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


def is_state_file_unedited(log: WorkflowLog, left: Synced | None, found: bytes | None) -> bool:
    """Return whether nobody but wfctl has changed ``workflow-state.json``.

    The file must be as wfctl remembers it, or show a later version of the log.
    """
    if found is None or left is None:
        return left is None and (found is None or was_written_by_wfctl(log, 0, found))
    return left.sha256 == digest(found) or was_written_by_wfctl(log, left.version, found)


def was_written_by_wfctl(log: WorkflowLog, after: int, found: bytes) -> bool:
    """Return whether ``workflow-state.json`` shows a log version later than ``after``."""
    return any(
        state.updated[:19].encode() in found and state_document.render_state(state) == found
        for _, state in log.steps(after)
    )
