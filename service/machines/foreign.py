"""What others wrote into a machine's file: kept as drift, or taken over where it is theirs.

In ``metadata.json`` every field but the engine's belongs to the protocol's other users: what they
write there is taken into the log. Anything else that differs is kept and waits for a decision.
"""

from __future__ import annotations

import json
from typing import Any

from eventstore.codec import canonical
from eventstore.errors import InvalidData
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import parse, put
from lifecycle.machines.payload import Change, MachineUpdated
from lifecycle.payload.base import Payload
from lifecycle.payload.drift import DriftDetected
from lifecycle.words.layout import layout_of
from projections.files.document_diff import differences
from projections.machines import conductor
from projections.machines.documents import documents, to_bytes
from service.files.drift import LISTED, keep, recordable
from service.root.root import Root
from service.root.sync import digest

Document = dict[str, Any]


def found_in(
    root: Root, state: Machine, path: str, base: int, expected: bytes, found: bytes | None
) -> list[Payload]:
    """Return what to record of a file that somebody else changed, and keep what was found."""
    document = decoded(found)
    taken: list[Payload] = []
    if state.definition.protocol == "conductor" and document is not None:
        taken = _theirs(state, document)
        expected = to_bytes(_after(state, taken))
    if document is not None and document == json.loads(expected):
        return taken
    return [*taken, drift(root, state, path, base, expected, found)]


def decoded(found: bytes | None) -> Document | None:
    """Return a JSON object, None for anything else."""
    try:
        value = json.loads(found or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _theirs(state: Machine, found: Document) -> list[Payload]:
    """Return the fields of others that differ from what is known of them, as one update."""
    shown = conductor.metadata(state)
    held = conductor.recorded_blockers(state)
    changes: list[Change] = []
    for key, value in found.items():
        theirs = _without(value, held) if key == "blockers" else value
        known = _without(shown.get(key), held) if key == "blockers" else shown.get(key)
        if key in (conductor.OWN, "track_id") or theirs == known or not is_field(key):
            continue
        if _is_recordable(theirs):
            changes.append(Change(path=key, value=theirs))
    if not changes:
        return []
    listed = [change.model_dump(mode="json") for change in changes]
    return [MachineUpdated(changes=changes, layout=layout_of(listed))]


def _without(value: Any, held: list[Document]) -> Any:
    return [one for one in value if one not in held] if isinstance(value, list) else value


def is_field(key: str) -> bool:
    """Whether a key can be a part of a dot path."""
    return bool(key) and not any(letter in key for letter in ".[] \t\n")


def _is_recordable(value: Any) -> bool:
    """Whether the log can hold a value: no number too large, no half letter, not too deep."""
    try:
        change = Change(path="theirs", value=value).model_dump(mode="json")
        canonical({"data": {"changes": [change]}})
    except (ValueError, InvalidData):
        return False
    return True


def _after(state: Machine, taken: list[Payload]) -> Document:
    draft = state.draft()
    for payload in taken:
        for change in payload.model_dump(mode="json")["changes"]:
            put(draft.document, parse(change["path"]), change["value"])
    return documents(draft)["metadata"]


def drift(
    root: Root, state: Machine, path: str, base: int, expected: bytes, found: bytes | None
) -> DriftDetected:
    """Keep the foreign bytes and say what differs, field by field."""
    if found is None:
        return DriftDetected(file=path, kind="missing", base=base)
    sha = digest(found)
    if expected.startswith(found):
        return DriftDetected(file=path, kind="truncated", base=base, found_sha256=sha)
    listed = fields_of(expected, found)
    return DriftDetected(
        file=path,
        kind="unreadable" if decoded(found) is None else "changed",
        base=base,
        kept_as=keep(root, f"{state.id}.{path.rpartition('/')[2]}", found),
        found_sha256=sha,
        differences=listed[:LISTED],
        more=max(len(listed) - LISTED, 0),
    )


def fields_of(expected: bytes, found: bytes | None) -> list[Document]:
    """Return what differs, field by field; nothing for what is no JSON object."""
    document = decoded(found)
    if document is None:
        return []
    return [recordable(one) for one in differences(json.loads(expected), document)]
