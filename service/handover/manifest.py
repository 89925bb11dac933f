"""What an archive holds, by which digests it is known, and which lines of it are accepted.

A zip file: ``events/STREAM.jsonl`` (the recorded events as they were hashed), ``claims.jsonl`` (the
command ids with their digests), ``refusals.jsonl``, the files as they are shown
(``workflow-state.json``, ``progress.log``), ``report.html``, ``ro-crate-metadata.json``, the kept
foreign versions of files (``drift/``), the workflow's own files (``files/PATH``), and last
``manifest.json``. A version that knows no ``files/`` checks them and makes nothing of them. Its
lines are held to what an append makes: nothing of it is refused half way.
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

from eventstore.chain import ZERO, Schema, canonical
from eventstore.errors import EventStoreError
from eventstore.event import RecordedEvent, fault
from eventstore.store import Refusal
from lifecycle.machines.definition import trusted
from lifecycle.machines.soundness import misplaced
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.plan import document as plan
from lifecycle.plan import imported as imported_document
from lifecycle.rules.decide import model_of
from lifecycle.words.document import restore
from lifecycle.words.values import problem
from service.documents.bounds import bounded_lines
from service.errors import ServiceError
from service.machines.log import PREFIX as MACHINE

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


#: Bytes of a line, or of the manifest, and values in it: each takes some 100 bytes of memory.
LONGEST, _MOST = 32 << 20, 2_000_000
#: What an exported event has before its last brace, beside the text that was hashed.
_END = re.compile(rb',"hash":"([0-9a-f]{64})","position":[0-9]+}$')


def decoded(text: bytes) -> Any:
    """Return the value of a JSON text; raises ValueError if it would fill the memory."""
    if len(text) > _MOST and sum(map(text.count, (b",", b"[", b"{"))) > _MOST:
        raise ValueError(f"expected {_MOST:,} values at most, found more")
    return orjson.loads(text)


def check_streams(path: Path, file: ZipFile, manifest: Manifest) -> None:
    """Raise `UnusableArchive` for a line that no append would make, the first one found."""
    for name in (CLAIMS, REFUSALS):
        if name not in manifest.files:
            raise UnusableArchive(path, name, "the manifest does not name it")
    for line in lines_of(path, file, REFUSALS):
        if not _is_refusal(line):
            raise UnusableArchive(path, REFUSALS, f"expected refusals, found {line!r:.80}")
    claims = _claims(path, file, sum(stream.version for stream in manifest.streams))
    ids: set[str] = set()
    for stream in manifest.streams:
        _Chain(path, stream, claims, ids).check(file)


def lines_of(path: Path, file: ZipFile, name: str) -> Iterator[Any]:
    """Yield the values of the lines of a file; raises `UnusableArchive` for another content."""
    try:
        with file.open(name) as lines:
            yield from map(decoded, bounded_lines(lines, LONGEST))
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


def _claims(path: Path, file: ZipFile, most: int) -> set[str]:
    """Return the ids of the commands, of which there are no more than events."""
    found: set[str] = set()
    for line in lines_of(path, file, CLAIMS):
        parts = (line.get("command_id"), line.get("digest")) if isinstance(line, dict) else (None,)
        sound = all(isinstance(part, str) and "\0" not in part for part in parts)
        if not sound or line["command_id"] in found or len(found) == most:
            raise UnusableArchive(path, CLAIMS, f"expected no such claim as {line!r:.80}")
        found.add(line["command_id"])
    return found


class _Chain:
    """The events of a stream, followed from the first; ids and claims are of all streams."""

    def __init__(self, path: Path, stream: Stream, claims: set[str], ids: set[str]) -> None:
        self._stream, self._claims, self._ids = stream, claims, ids
        self._wrong = partial(UnusableArchive, path, stream.file)
        self._version, self._previous = 0, ZERO
        self._command: tuple[str, str, str] | None = None

    def check(self, file: ZipFile) -> None:
        """Follow the chain to the head that the manifest names."""
        with file.open(self._stream.file) as lines:
            for line in bounded_lines(lines, LONGEST):
                self._version += 1
                try:
                    self._check_line(line)
                except (ValueError, RecursionError) as error:
                    raise self._wrong(f"version {self._version} is no event: {error}") from error
        if (self._version, self._previous) != (self._stream.version, self._stream.head or ZERO):
            raise self._wrong(f"it ends at version {self._version}, not as the manifest says")

    def _check_line(self, line: bytes) -> None:
        end = _END.search(line.rstrip())
        text = line[: end.start()] + b"}" if end is not None else b"{}"
        event, found = decoded(text), sha256(text).hexdigest()
        if not isinstance(event, dict):
            raise ValueError("expected an object")
        place = (event.get("stream"), event.get("version"), event.get("prev_hash"))
        said = end[1].decode() if end is not None else None
        if found != said or place != (self._stream.name, self._version, self._previous):
            why = f"version {self._version} was changed: it hashes to {found}, and says {said}"
            raise self._wrong(why)
        wrong = unacceptable(text) or self._of_command(event)
        if wrong is not None:
            raise self._wrong(f"version {self._version} is not one that a command records: {wrong}")
        if self._version == 1 and self._stream.name.startswith(MACHINE):
            self._check_machine(event["data"])
        self._previous = found

    def _of_command(self, event: dict[str, Any]) -> str | None:
        command = (event["command_id"], event["recorded_at"], event["utc_offset"])
        if event["event_id"] in self._ids:
            return f"another event has the id {event['event_id']!r:.80}"
        self._ids.add(event["event_id"])
        if command != self._command and command[0] not in self._claims:
            return f"{CLAIMS} has no command {command[0]!r:.80} that stands in one place"
        self._claims.discard(command[0])
        self._command = command
        return None

    def _check_machine(self, data: dict[str, Any]) -> None:
        """Refuse a machine that would write its files elsewhere: its definition came with it."""
        id_ = self._stream.name.removeprefix(MACHINE)
        wrong = [*misplaced(trusted(restore(data["definition"], data["definition_layout"]), id_))]
        if data["machine"] != id_:
            wrong.append(f"expected the id of a machine, found {id_!r}")
        if wrong:
            raise self._wrong("; ".join(wrong))


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
