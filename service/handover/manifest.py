"""What an archive holds, and by which digests it is known.

A zip file: ``events/STREAM.jsonl`` (the recorded events as they were hashed), ``claims.jsonl`` (the
command ids with their digests), ``refusals.jsonl``, the files as they are shown
(``workflow-state.json``, ``progress.log``), ``report.html``, ``ro-crate-metadata.json``, the kept
foreign versions of files (``drift/``), the workflow's own files (``files/PATH``), and last
``manifest.json``. A version that knows no ``files/`` checks them and makes nothing of them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from eventstore.codec import Schema, canonical
from eventstore.errors import EventStoreError
from eventstore.event import RecordedEvent, fault
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.plan import document as plan
from lifecycle.plan import imported as imported_document
from lifecycle.rules.flat import model_of
from lifecycle.words.cause import problem
from service.errors import ServiceError

NAME = "manifest.json"
CLAIMS, REFUSALS = "claims.jsonl", "refusals.jsonl"
DRIFT, FILES = "drift/", "files/"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its last version, and the hash that the chain ends with."""

    name: str
    file: str
    version: int
    head: str


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file of the archive."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the workflow that did not go along, and why."""

    path: str
    bytes: int
    why: str


@dataclass(slots=True)
class Manifest:
    """All of it; ``at`` is when the newest event was recorded, ``workflow`` None of machines."""

    workflow: str | None
    at: str
    streams: list[Stream] = field(default_factory=list)
    files: dict[str, ManifestEntry] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1).encode() + b"\n"

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Manifest:
        """Build a manifest from the file's values; raises KeyError, TypeError, ValueError."""
        if values["format"] != _FORMAT:
            raise ValueError(f"format {values['format']}, and this wfctl reads format {_FORMAT}")
        return Manifest(
            values["workflow"],
            values["at"],
            [Stream(**stream) for stream in values["streams"]],
            {name: ManifestEntry(**entry) for name, entry in values["files"].items()},
            [LeftOut(**one) for one in values.get("left_out", [])],
        )


class UnusableArchive(ServiceError):
    """An archive that is not what its manifest says; nothing was made of it."""

    code = "unusable_archive"

    def __init__(self, path: Path, name: str | None, why: str) -> None:
        place = f"{path}: {name}" if name else path
        super().__init__(
            f"{place}: {why}. Nothing was made of it; ask for another copy of the archive.",
            path=str(path),
            name=name,
            why=why,
        )


_SCHEMA = Schema(VERSIONS, UPCASTERS)
#: What an event's text holds: its place in the chain, what it is, and what stands around it.
_FIELDS = frozenset(
    [
        *("actor", "causation_id", "command_id", "correlation_id", "data", "event_id"),
        *("occurred_at", "prev_hash", "recorded_at", "schema_version", "session", "stream"),
        *("type", "utc_offset", "version"),
    ]
)
_IDS, _LONGEST_ID = ("event_id", "command_id", "causation_id", "correlation_id"), 300


def unacceptable(text: bytes) -> str | None:
    """Return why an event, by its text, is not taken; None if it is."""
    wrong = _of_envelope(body := orjson.loads(text))
    if wrong is not None:
        return wrong
    try:
        if canonical(body) != text:
            return "it is spelled otherwise than a log spells it"
        event = _SCHEMA.decode(0, "", text)
    except EventStoreError as error:
        return error.message
    try:
        model_of(event.type).of(event.data)
    except ValidationError as error:
        return f"{event.type}: {problem(error.errors()[0])}"
    return _of_document(event)


def _of_envelope(body: dict[str, Any]) -> str | None:
    if set(body) != _FIELDS:
        return f"expected the fields of an event alone, found {sorted(set(body) ^ _FIELDS)!s:.80}"
    if not isinstance(body["actor"], dict) or set(body["actor"]) != {"kind", "name"}:
        return "actor: expected an object with a kind and a name, both text"
    if any(len(str(body[name])) > _LONGEST_ID for name in _IDS):
        return f"an id of the envelope: expected {_LONGEST_ID} characters at most"
    return fault(body)


def _of_document(event: RecordedEvent) -> str | None:
    """Return what is wrong with the whole document that an event holds, if it holds one."""
    if event.type == "workflow.created":
        document = event.data["document"]
        wrong = plan.definition_problems(document)
        if not wrong and event.stream != f"workflow-{document['workflow_id']}":
            wrong = [f"the workflow of {event.stream} calls itself {document['workflow_id']!r:.80}"]
        return f"workflow.created: {wrong[0]}" if wrong else None
    if event.type in ("workflow.imported", "state.imported"):
        for place, said in imported_document.problems(event.data["document"]):
            return f"the document that was taken over: {place}: {said}"
    return None
