"""Holding the lines of an archive to what an append makes: nothing of it is refused half way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson

from eventstore.chain import ZERO
from eventstore.store import Refusal
from lifecycle.machines.definition import trusted
from lifecycle.machines.soundness import misplaced
from lifecycle.words.document import restore
from service.documents.bounds import bounded_lines
from service.handover.manifest import (
    CLAIMS,
    REFUSALS,
    Manifest,
    Stream,
    UnusableArchive,
    unacceptable,
)
from service.machines.log import PREFIX as MACHINE

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
            raise self._wrong(f"version {self._version} is none that a command records: {wrong}")
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
