"""An archive: a file with the events of a log as lines of JSON.

It can be checked without a database or wfctl. The first line names the format. Then follow the
events of all streams in order, `claim` lines with the ids of executed commands, and `refusal`
lines. The last line has the number of records and the SHA-256 of all previous lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import orjson

from eventstore.errors import StoreDamaged
from eventstore.regular_files import open_for_reading
from eventstore.store import ExecutedCommand, RawEvent, Refusal
from eventstore.transfer.copy import (
    Chains,
    CopyCounts,
    CopySource,
    iterate_checked_events,
    iterate_commands_to_copy,
)


def export_line(raw: RawEvent) -> str:
    """Return an event's text exactly as hashed, with hash and position added at its end."""
    return f'{raw.text[:-1]},"hash":"{raw.hash}","position":{raw.position}}}'


T = TypeVar("T")

_BEGIN = {"archive": "wfctl event log", "format": 1}
_PLACE = re.compile(rb',"hash":"([0-9a-f]{64})","position":(\d+)\}\n\Z')


def is_archive(path: Path) -> bool:
    """Return whether the start of the file has the format of an archive."""
    with open_for_reading(path) as file:
        return file.read(len(_format_first_line())) == _format_first_line()


def _format_first_line() -> bytes:
    return orjson.dumps(_BEGIN) + b"\n"


def write_archive(source: CopySource, path: Path, *, only: str | None = None) -> CopyCounts:
    """Write a log, or `only` one stream of it, to a new archive file.

    The file is durable when the call returns. Each event is checked. Raises DamagedEvent,
    FileExistsError or OSError.
    """
    chains, found = Chains(), sha256()
    number = {"claim": 0, "refusal": 0}

    def lines() -> Iterator[bytes]:
        yield _format_first_line()
        for step in iterate_checked_events(source, chains, only):
            yield export_line(step.raw).encode() + b"\n"
        claims = iterate_commands_to_copy(source, chains.heads, only)
        entries: list[tuple[str, Iterator[ExecutedCommand | Refusal]]]
        entries = [("claim", claims), ("refusal", source.refusals(only))]
        for kind, known in entries:
            for number[kind], one in enumerate(known, 1):
                yield orjson.dumps({kind: one._asdict()}) + b"\n"

    with path.open("xb") as file:
        for line in lines():
            found.update(line)
            file.write(line)
        events = sum(head.version for head in chains.heads.values())
        done = CopyCounts(len(chains.heads), events, number["claim"], number["refusal"], before=0)
        counts = {name: n for name, n in done._asdict().items() if name != "before"}
        end = {"end": {**counts, "sha256": found.hexdigest()}}
        file.write(orjson.dumps(end) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return done


class ArchiveSource:
    """An archive file as the source of a copy.

    Its methods raise StoreDamaged if the archive is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def all_raw(self) -> Iterator[RawEvent]:
        """See Source."""
        for line in self._read_complete_lines():
            place = _PLACE.search(line)
            if place is not None:
                text = line[: place.start()].decode(errors="replace") + "}"
                yield RawEvent(int(place[2]), text, place[1].decode())

    def streams(self) -> Iterator[str]:
        """See Source."""
        return iter(sorted({orjson.loads(raw.text)["stream"] for raw in self.all_raw()}))

    def commands(self) -> Iterator[ExecutedCommand]:
        """See Source."""
        return self._read_entries("claim", ExecutedCommand)

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See Source."""
        found = self._read_entries("refusal", Refusal)
        return (refusal for refusal in found if stream in (None, refusal.stream))

    def close(self) -> None:
        """Do nothing: no file stays open between two reads."""

    def _read_entries(self, kind: str, made: Callable[..., T]) -> Iterator[T]:
        start = b'{"' + kind.encode() + b'":'
        for line in self._read_complete_lines():
            if line.startswith(start):
                try:
                    yield made(**orjson.loads(line)[kind])
                except (TypeError, ValueError) as error:
                    raise StoreDamaged(
                        self.path, f"a line of type {kind} has an unknown format"
                    ) from error

    def _read_complete_lines(self) -> Iterator[bytes]:
        """Yield every line of the archive except the last.

        The last line contains a digest. Raises StoreDamaged at the end if the lines do not match
        it.
        """
        found = sha256()
        with open_for_reading(self.path) as file:
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
            raise StoreDamaged(self.path, "the archive is incomplete or was changed")
