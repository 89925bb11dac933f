"""What somebody else did to a file that wfctl writes, as it is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files import progress_log, state_document
from service.root.disk import common_start, content_of, write_whole
from service.root.root import Root
from service.root.sync import digest

if TYPE_CHECKING:
    from projections.files.document_diff import FieldDifference

#: A drift lists so many differences; all of them can be had from the version that is kept.
LISTED = 200
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
    """Return bytes that were kept under ``name``, by their SHA-256 in hex; None where none were."""
    found = content_of(_place(root, name, sha))
    return found if found is not None and digest(found) == sha else None


def _place(root: Root, name: str, sha: str) -> Path:
    return root.drift / f"{name}.{sha[:16]}"


def is_half_mended(
    root: Root, name: str, found: bytes | None, expected: bytes, known: Iterable[str | None]
) -> bool:
    """Whether a file begins as it should and goes on as a foreign version that is kept, if at all.

    So a crash leaves it while it is mended. ``known``: the digests of what was detected.
    """
    if found is None:
        return False
    same = common_start(found, expected)
    return any(
        (content_of(_place(root, name, sha or "")) or b"")[same:].startswith(found[same:])
        for sha in known
    )


def of_state(root: Root, base: Workflow, found: bytes | None) -> p.DriftDetected:
    """Keep a foreign ``workflow-state.json`` and say what differs from the one at ``base``."""
    name = state_document.FILE_NAME
    if found is None:
        return p.DriftDetected(file=name, kind="missing", base=base.head)
    if state_document.render(base).startswith(found):
        return p.DriftDetected(
            file=name, kind="truncated", base=base.head, found_sha256=digest(found)
        )
    listed = state_differences(base, found)
    return p.DriftDetected(
        file=name,
        kind="unreadable" if listed is None else "changed",
        base=base.head,
        kept_as=keep(root, name, found),
        found_sha256=digest(found),
        differences=[recordable(difference) for difference in (listed or [])[:LISTED]],
        more=max(len(listed or []) - LISTED, 0),
    )


def state_differences(base: Workflow, found: bytes) -> list[FieldDifference] | None:
    """Return what differs, field by field; None where ``found`` is no JSON object."""
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


def of_log(root: Root, base: int, expected: bytes, found: bytes | None) -> p.DriftDetected:
    """Keep a ``progress.log`` in which something else than the end was changed."""
    name = progress_log.FILE_NAME
    if found is None:
        return p.DriftDetected(file=name, kind="missing", base=base)
    if expected.startswith(found):
        return p.DriftDetected(file=name, kind="truncated", base=base, found_sha256=digest(found))
    listed = line_differences(expected, found)
    return p.DriftDetected(
        file=name,
        kind="changed",
        base=base,
        kept_as=keep(root, name, found),
        found_sha256=digest(found),
        differences=[
            {**entry, "old": _storable(entry["old"]), "new": _storable(entry["new"])}
            for entry in listed[:LISTED]
        ],
        more=max(len(listed) - LISTED, 0),
    )


def line_differences(expected: bytes, found: bytes) -> list[dict[str, Any]]:
    """Return the runs of lines that differ: ``line`` (from 1) in the file as it should be."""
    before = expected.decode(errors="replace").splitlines()
    after = found.decode(errors="replace").splitlines()
    start = common_start(before, after)
    before, after = before[start:], after[start:]
    end = common_start(before[::-1], after[::-1])
    before, after = before[: len(before) - end], after[: len(after) - end]
    return [
        {"kind": kind, "line": start + i + 1, "old": before[i:j], "new": after[k:m]}
        for kind, i, j, k, m in _runs(before, after)
    ]


def _runs(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    if len(before) + len(after) > _COMPARED:
        return [("replace", 0, len(before), 0, len(after))]
    from difflib import SequenceMatcher

    runs = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    # Bytes that do not show in the text, such as the end of a line, differ all the same.
    return [run for run in runs if run[0] != "equal"] or [("bytes", 0, 0, 0, 0)]


def recordable(difference: FieldDifference) -> dict[str, Any]:
    """Return a difference as an event can hold it, whatever the values are."""
    return {
        "stage": difference.stage if difference.stage is None else _storable(difference.stage),
        "path": [_storable(step) for step in difference.path],
        "kind": difference.kind,
        "old": _storable(difference.old),
        "new": _storable(difference.new),
    }


def _storable(value: Any) -> Any:
    import json

    from eventstore.codec import canonical
    from eventstore.errors import InvalidData

    text = json.dumps(value)
    if len(text) > _LONGEST:
        return {"bytes": len(text), "sha256": digest(text.encode())}
    try:
        canonical({"data": {"differences": [{"value": value}]}})
    except InvalidData:
        return {"json": text}
    return value
