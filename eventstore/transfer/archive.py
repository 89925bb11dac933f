"""An archive: a log as lines of JSON that need no engine, and no program of ours, to be checked.

The first line says what it is, the last how much it holds and the SHA-256 of all lines before it.
Between them stand the events of all streams in order, as `export` writes them; then `claim` lines
with the keys of commands, and `refusal` lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import orjson

from eventstore.chain import Schema
from eventstore.errors import DamagedEvent, SchemaError, StoreDamaged
from eventstore.private import opened
from eventstore.store import Claimed, EventStore, Raw, Refusal
from eventstore.transfer.copy import Chains, Copied, CopySource, steps


def exported(raw: Raw) -> str:
    """The text exactly as it was hashed, with hash and position put in before its last brace."""
    return f'{raw.text[:-1]},"hash":"{raw.hash}","position":{raw.position}}}'


T = TypeVar("T")

_BEGIN = {"archive": "wfctl event log", "format": 1}
_PLACE = re.compile(rb',"hash":"([0-9a-f]{64})","position":(\d+)\}\n\Z')


def is_archive(path: Path) -> bool:
    """Whether a file begins as an archive does."""
    with opened(path) as file:
        return file.read(len(_begin())) == _begin()


def _begin() -> bytes:
    return orjson.dumps(_BEGIN) + b"\n"


def write_archive(source: CopySource, path: Path, *, only: str | None = None) -> Copied:
    """Write a log, or `only` one stream of it, to a new file, durable when this returns.

    Each event is checked on the way. Raises DamagedEvent, FileExistsError, OSError.
    """
    with path.open("xb") as file:
        lines = _Lines()
        for line in lines.of(source, only):
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return lines.count()


class _Lines:
    """The lines of an archive, counted and hashed as they are made."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._chains = Chains()
        self._commands = self._refusals = 0

    def of(self, source: CopySource, only: str | None) -> Iterator[bytes]:
        for line in self._before_the_end(source, only):
            self._digest.update(line)
            yield line
        end = {"end": {**self._counts(), "sha256": self._digest.hexdigest()}}
        yield orjson.dumps(end) + b"\n"

    def _before_the_end(self, source: CopySource, only: str | None) -> Iterator[bytes]:
        yield _begin()
        for step in steps(source, self._chains, only):
            yield exported(step.raw).encode() + b"\n"
        for command in self._known(source, only):
            self._commands += 1
            yield orjson.dumps({"claim": command._asdict()}) + b"\n"
        for refusal in source.refusals(only):
            self._refusals += 1
            yield orjson.dumps({"refusal": refusal._asdict()}) + b"\n"

    def _known(self, source: CopySource, only: str | None) -> Iterator[Claimed]:
        """The commands of the events that were written: more may have come meanwhile."""
        for command in source.commands():
            head = self._chains.heads.get(command.stream)
            if only in (None, command.stream) and command.last_version <= (
                head.version if head else 0
            ):
                yield command

    def _counts(self) -> dict[str, int]:
        return {
            "streams": len(self._chains.heads),
            "events": sum(head.version for head in self._chains.heads.values()),
            "commands": self._commands,
            "refusals": self._refusals,
        }

    def count(self) -> Copied:
        return Copied(**self._counts(), before=0)


class ArchiveSource:
    """An archive as a source to copy from. Raises StoreDamaged where it is not whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all_raw(self) -> Iterator[Raw]:
        """See Source."""
        for line in self._lines():
            place = _PLACE.search(line)
            if place is not None:
                text = line[: place.start()].decode(errors="replace") + "}"
                yield Raw(int(place[2]), text, place[1].decode())

    def streams(self) -> Iterator[str]:
        """See Source."""
        return iter(sorted({orjson.loads(raw.text)["stream"] for raw in self.all_raw()}))

    def commands(self) -> Iterator[Claimed]:
        """See Source."""
        return self._entries("claim", Claimed)

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See Source."""
        found = self._entries("refusal", Refusal)
        return (refusal for refusal in found if stream in (None, refusal.stream))

    def close(self) -> None:
        """Nothing is open between two looks."""

    def _entries(self, kind: str, made: Callable[..., T]) -> Iterator[T]:
        start = b'{"' + kind.encode() + b'":'
        for line in self._lines():
            if line.startswith(start):
                try:
                    yield made(**orjson.loads(line)[kind])
                except (TypeError, ValueError) as error:
                    raise StoreDamaged(self.path, f"a {kind} of another form") from error

    def _lines(self) -> Iterator[bytes]:
        """Every line but the last, once the last has said that they are all."""
        found = sha256()
        with opened(self.path) as file:
            last = b""
            for line in file:
                found.update(last)
                if last:
                    yield last
                last = line
        if self._said(last) != found.hexdigest():
            raise StoreDamaged(self.path, "an archive that was cut off or changed")

    def _said(self, line: bytes) -> str | None:
        try:
            return str(orjson.loads(line)["end"]["sha256"])
        except (ValueError, KeyError, TypeError):
            return None


class SoundPart:
    """What can be copied of a log that was altered; the log itself is only read.

    An event that the program of `schema` does not know is bad too: it can be shown, and nothing can
    be written behind it.
    """

    def __init__(self, store: EventStore, schema: Schema) -> None:
        self._store = store
        self._schema = schema

    def all_raw(self) -> Iterator[Raw]:
        """The events of all streams in order, of each up to its first bad one."""
        chains, ended = Chains(), set[str]()
        for raw in self._store.all_raw():
            stream = _stream_of(raw)
            if stream is None or stream in ended:
                continue
            try:
                added = chains.added(raw).raw
                self._schema.event(raw.position, raw.hash, orjson.loads(raw.text))
            except (DamagedEvent, SchemaError):
                ended.add(stream)
                continue
            yield added

    def streams(self) -> Iterator[str]:
        """Names of the streams of which something is sound, sorted."""
        return iter(sorted({str(_stream_of(raw)) for raw in self.all_raw()}))

    def commands(self) -> Iterator[Claimed]:
        """The claimed commands that say what a claim says, in order of their ids."""
        types = (str, str, str, int, int)
        return (c for c in self._store.commands() if all(map(isinstance, c, types)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        return self._store.refusals(stream)


def _stream_of(raw: Raw) -> str | None:
    """The stream that an event's text names, None where it is no envelope that fits its columns."""
    try:
        body = orjson.loads(raw.text)
        named = (body["stream"], body["event_id"], body["type"], body["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return None
    return body["stream"] if all(isinstance(text, str) for text in named) else None
