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
from eventstore.transfer.copy import Chains, Copied, CopySource, claimed_of, steps


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
    chains, found = Chains(), sha256()
    number = {"claim": 0, "refusal": 0}

    def lines() -> Iterator[bytes]:
        yield _begin()
        for step in steps(source, chains, only):
            yield exported(step.raw).encode() + b"\n"
        claims = claimed_of(source, chains.heads, only)
        entries: list[tuple[str, Iterator[Claimed | Refusal]]]
        entries = [("claim", claims), ("refusal", source.refusals(only))]
        for kind, known in entries:
            for number[kind], one in enumerate(known, 1):
                yield orjson.dumps({kind: one._asdict()}) + b"\n"

    with path.open("xb") as file:
        for line in lines():
            found.update(line)
            file.write(line)
        events = sum(head.version for head in chains.heads.values())
        done = Copied(len(chains.heads), events, number["claim"], number["refusal"], before=0)
        counts = {name: n for name, n in done._asdict().items() if name != "before"}
        end = {"end": {**counts, "sha256": found.hexdigest()}}
        file.write(orjson.dumps(end) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return done


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
        try:
            said = orjson.loads(last)["end"]["sha256"]
        except (ValueError, KeyError, TypeError):
            said = None
        if said != found.hexdigest():
            raise StoreDamaged(self.path, "an archive that was cut off or changed")


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
        """See EventStore."""
        return self._store.commands()

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        return self._store.refusals(stream)


def _stream_of(raw: Raw) -> str | None:
    """The stream that an event's text names, None if it is no envelope that fits its columns."""
    try:
        body = orjson.loads(raw.text)
        named = (body["stream"], body["event_id"], body["type"], body["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return None
    return body["stream"] if all(isinstance(text, str) for text in named) else None
