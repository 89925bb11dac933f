"""Read and write the manifest of an archive, and check the recorded events in the archive.

An archive is a zip file. It contains ``events/STREAM.jsonl`` (the recorded events as they were
hashed), ``claims.jsonl`` (the command ids with their digests), ``refusals.jsonl``, the generated
files (``workflow-state.json``, ``progress.log``), ``report.html``, ``ro-crate-metadata.json``,
``plan.toml`` (the current plan), the kept manual edits of generated files (``drift/``), the
workflow's own files (``files/PATH``), and finally ``manifest.json``. Versions of wfctl that do not
know ``files/`` check these files but do not restore them. Each event must have exactly the form in
which wfctl records events. An import is therefore never refused half-way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
from pydantic import ValidationError

from eventstore.chain import ZERO, canonical_json
from eventstore.errors import EventStoreError
from eventstore.event import RecordedEvent, find_envelope_fault
from eventstore.schema import Schema
from eventstore.store import Refusal
from extensions.handover.errors import UnusableArchive
from extensions.machines.rules.definition import load_trusted_definition
from extensions.machines.rules.soundness import list_misplaced_files
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.plan import document as plan
from lifecycle.plan import imported_document
from lifecycle.words.document import restore_key_order
from lifecycle.words.validation_errors import explain_validation_error_at_path
from projections.files.event_models import find_event_model
from service.documents.bounds import bounded_lines
from service.root.root import MACHINE

NAME = "manifest.json"
CLAIMS, REFUSALS = "claims.jsonl", "refusals.jsonl"
DRIFT, FILES = "drift/", "files/"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """An event stream in an archive: its last version, and the last hash of its chain."""

    name: str
    file: str
    version: int
    head: str


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """The size and the digest of a file in an archive."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the workflow that an archive does not include, and the reason."""

    path: str
    bytes: int
    why: str


@dataclass(slots=True)
class Manifest:
    """The manifest of an archive: its workflow, its event streams and its files.

    ``workflow`` is None if the archive contains only machines. ``at`` is the time of the newest
    event.
    """

    workflow: str | None
    at: str
    streams: list[Stream] = field(default_factory=list)
    files: dict[str, ManifestEntry] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Return the content of the manifest file."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1).encode() + b"\n"

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Manifest:
        """Return the manifest that the JSON values describe.

        Raises KeyError, TypeError or ValueError if the values do not have the expected form.
        """
        if values["format"] != _FORMAT:
            raise ValueError(
                f"the archive has format {values['format']}, but this version of wfctl reads only "
                f"format {_FORMAT}"
            )
        return Manifest(
            values["workflow"],
            values["at"],
            [Stream(**stream) for stream in values["streams"]],
            {name: ManifestEntry(**entry) for name, entry in values["files"].items()},
            [LeftOut(**one) for one in values.get("left_out", [])],
        )


#: Maximum size in bytes of a line or of the manifest, and maximum number of JSON values. Both limit
#: the memory for a malicious archive.
LONGEST, _MOST = 32 << 20, 2_000_000
#: The end of an exported event, which follows the text that was hashed.
_END = re.compile(rb',"hash":"([0-9a-f]{64})","position":[0-9]+}$')


def decode_json(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError if the text has so many values that it would need too much memory.
    """
    if len(text) > _MOST and sum(map(text.count, (b",", b"[", b"{"))) > _MOST:
        raise ValueError(f"expected at most {_MOST:,} values, found more")
    return orjson.loads(text)


def check_streams(path: Path, file: ZipFile, manifest: Manifest) -> None:
    """Check every event, command id and refused command in an archive.

    Raises `UnusableArchive` for the first line that wfctl could not have recorded.
    """
    for name in (CLAIMS, REFUSALS):
        if name not in manifest.files:
            raise UnusableArchive(path, name, "the manifest does not name the file")
    for line in iterate_json_lines(path, file, REFUSALS):
        if not _is_refusal(line):
            raise UnusableArchive(path, REFUSALS, f"expected refusals, found {line!r:.80}")
    claims = _read_claims(path, file, sum(stream.version for stream in manifest.streams))
    ids: set[str] = set()
    for stream in manifest.streams:
        _Chain(path, stream, claims, ids).check(file)


def iterate_json_lines(path: Path, file: ZipFile, name: str) -> Iterator[Any]:
    """Yield the value of each JSON line of a file in an archive.

    Raises `UnusableArchive` if a line is not JSON.
    """
    try:
        with file.open(name) as lines:
            yield from map(decode_json, bounded_lines(lines, LONGEST))
    except ValueError as error:
        raise UnusableArchive(path, name, f"expected lines of JSON: {error}") from error


def _is_refusal(line: Any) -> bool:
    if not isinstance(line, dict) or set(line) != set(Refusal._fields):
        return False
    *texts, data = (line[name] for name in Refusal._fields)
    if not isinstance(data, dict) or not all(isinstance(t, str) and "\0" not in t for t in texts):
        return False
    try:
        return datetime.fromisoformat(line["at"]).tzinfo is not None
    except ValueError:
        return False


def _read_claims(path: Path, file: ZipFile, most: int) -> set[str]:
    """Return the command ids in an archive. Raise `UnusableArchive` for an invalid line.

    There must be no more command ids than events (``most``).
    """
    found: set[str] = set()
    for line in iterate_json_lines(path, file, CLAIMS):
        parts = (line.get("command_id"), line.get("digest")) if isinstance(line, dict) else (None,)
        sound = all(isinstance(part, str) and "\0" not in part for part in parts)
        if not sound or line["command_id"] in found or len(found) == most:
            raise UnusableArchive(
                path, CLAIMS, f"this line is invalid or repeats a command id: {line!r:.80}"
            )
        found.add(line["command_id"])
    return found


class _Chain:
    """Checks the hash chain of an event stream, from the first event to the last.

    ``ids`` and ``claims`` are shared by all streams of the archive.
    """

    def __init__(self, path: Path, stream: Stream, claims: set[str], ids: set[str]) -> None:
        self._stream, self._claims, self._ids = stream, claims, ids
        self._wrong = partial(UnusableArchive, path, stream.file)
        self._version, self._previous = 0, ZERO
        self._command: tuple[str, str, str] | None = None

    def check(self, file: ZipFile) -> None:
        """Check each event, and compare the end of the chain with the manifest.

        Raises `UnusableArchive` for the first problem.
        """
        with file.open(self._stream.file) as lines:
            for line in bounded_lines(lines, LONGEST):
                self._version += 1
                try:
                    self._check_line(line)
                except (ValueError, RecursionError) as error:
                    raise self._wrong(
                        f"version {self._version} is not a valid event: {error}"
                    ) from error
        if (self._version, self._previous) != (self._stream.version, self._stream.head or ZERO):
            raise self._wrong(
                f"the log ends at version {self._version}, which differs from the manifest"
            )

    def _check_line(self, line: bytes) -> None:
        end = _END.search(line.rstrip())
        text = line[: end.start()] + b"}" if end is not None else b"{}"
        event, found = decode_json(text), sha256(text).hexdigest()
        if not isinstance(event, dict):
            raise ValueError("expected an object")
        place = (event.get("stream"), event.get("version"), event.get("prev_hash"))
        said = end[1].decode() if end is not None else None
        if found != said or place != (self._stream.name, self._version, self._previous):
            why = (
                f"version {self._version} was changed: its hash is {found}, but the archive "
                f"records {said}"
            )
            raise self._wrong(why)
        wrong = explain_unacceptable_event(text) or self._explain_command_fault(event)
        if wrong is not None:
            raise self._wrong(f"version {self._version} was not recorded by a command: {wrong}")
        if self._version == 1 and self._stream.name.startswith(MACHINE):
            self._check_machine(event["data"])
        self._previous = found

    def _explain_command_fault(self, event: dict[str, Any]) -> str | None:
        command = (event["command_id"], event["recorded_at"], event["utc_offset"])
        if event["event_id"] in self._ids:
            return f"another event also has the id {event['event_id']!r:.80}"
        self._ids.add(event["event_id"])
        if command != self._command and command[0] not in self._claims:
            return f"{CLAIMS} does not list the command {command[0]!r:.80} exactly once"
        self._claims.discard(command[0])
        self._command = command
        return None

    def _check_machine(self, data: dict[str, Any]) -> None:
        """Raise `UnusableArchive` if a machine's definition names misplaced files.

        The id of the machine must also match the name of its stream.
        """
        id_ = self._stream.name.removeprefix(MACHINE)
        wrong = [
            *list_misplaced_files(
                load_trusted_definition(
                    restore_key_order(data["definition"], data["definition_layout"]), id_
                )
            )
        ]
        if data["machine"] != id_:
            wrong.append(f"expected the id of a machine, found {id_!r}")
        if wrong:
            raise self._wrong("; ".join(wrong))


_SCHEMA = Schema(VERSIONS, UPCASTERS)
#: The fields that the text of an event must have.
_FIELDS = frozenset(
    [
        *("actor", "causation_id", "command_id", "correlation_id", "data", "event_id"),
        *("occurred_at", "prev_hash", "recorded_at", "schema_version", "session", "stream"),
        *("type", "utc_offset", "version"),
    ]
)
_IDS, _LONGEST_ID = ("event_id", "command_id", "causation_id", "correlation_id"), 300


def explain_unacceptable_event(text: bytes) -> str | None:
    """Return the reason why the text of an event is not acceptable, or None if it is."""
    wrong = _explain_envelope_fault(body := orjson.loads(text))
    if wrong is not None:
        return wrong
    try:
        if canonical_json(body) != text:
            return "the event is not written in the form that wfctl uses"
        event = _SCHEMA.decode(0, "", text)
    except EventStoreError as error:
        return error.message
    try:
        find_event_model(event.type).of(event.data)
    except ValidationError as error:
        return f"{event.type}: {explain_validation_error_at_path(error.errors()[0])}"
    return _explain_document_fault(event)


def _explain_envelope_fault(body: dict[str, Any]) -> str | None:
    if set(body) != _FIELDS:
        return f"expected only the fields of an event, found {sorted(set(body) ^ _FIELDS)!s:.80}"
    if not isinstance(body["actor"], dict) or set(body["actor"]) != {"kind", "name"}:
        return "actor: expected an object with a kind and a name, both strings"
    if any(len(str(body[name])) > _LONGEST_ID for name in _IDS):
        return f"an id of the envelope: expected at most {_LONGEST_ID} characters"
    return find_envelope_fault(body)


def _explain_document_fault(event: RecordedEvent) -> str | None:
    """Return the first problem of the complete document that an event contains, or None.

    Only events that create or import a workflow contain a document.
    """
    if event.type == "workflow.created":
        document = event.data["document"]
        wrong = plan.definition_problems(document)
        if not wrong and event.stream != f"workflow-{document['workflow_id']}":
            wrong = [f"the workflow of {event.stream} has the id {document['workflow_id']!r:.80}"]
        return f"workflow.created: {wrong[0]}" if wrong else None
    if event.type in ("workflow.imported", "state.imported"):
        for place, said in imported_document.find_import_problems(event.data["document"]):
            return f"the imported document: {place}: {said}"
    return None
