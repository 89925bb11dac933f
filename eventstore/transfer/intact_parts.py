"""The parts of a damaged log that can still be copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

import orjson

from eventstore.errors import DamagedEvent, SchemaError
from eventstore.schema import Schema
from eventstore.store import EventStore, ExecutedCommand, RawEvent, Refusal
from eventstore.transfer.copy import (
    Chains,
)


class IntactStreams:
    """A copy source with only the intact streams of a damaged log. The log is only read."""

    def __init__(self, store: EventStore, names: Sequence[str]) -> None:
        self._store = store
        self._names = sorted(names)

    def all_raw(self) -> Iterator[RawEvent]:
        """Yield the events of the intact streams in the order of the log."""
        streams = (self._store.raw(name) for name in self._names)
        return merge(*streams, key=lambda raw: raw.position)

    def streams(self) -> Iterator[str]:
        """Yield the names of the intact streams in sorted order."""
        return iter(self._names)

    def commands(self) -> Iterator[ExecutedCommand]:
        """See EventStore."""
        return (one for one in self._store.commands() if one.stream in self._names)

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        found = self._store.refusals(stream)
        return (one for one in found if one.stream in self._names)


class ValidStreamPrefixes:
    """A copy source with only the valid events of an altered log. The log is only read.

    Each stream ends before its first invalid event. An event of a type that the `schema` does not
    know is treated as invalid, because nothing can be appended after it.
    """

    def __init__(self, store: EventStore, schema: Schema) -> None:
        self._store = store
        self._schema = schema

    def all_raw(self) -> Iterator[RawEvent]:
        """Yield the events of all streams in order, each stream up to its first invalid event."""
        chains, ended = Chains(), set[str]()
        for raw in self._store.all_raw():
            stream = _stream_of(raw)
            if stream is None or stream in ended:
                continue
            try:
                added = chains.check_and_add(raw).raw
                self._schema.event(raw.position, raw.hash, orjson.loads(raw.text))
            except (DamagedEvent, SchemaError):
                ended.add(stream)
                continue
            yield added

    def streams(self) -> Iterator[str]:
        """Return the names of the streams that start with a valid event, sorted."""
        return iter(sorted({str(_stream_of(raw)) for raw in self.all_raw()}))

    def commands(self) -> Iterator[ExecutedCommand]:
        """See EventStore."""
        return self._store.commands()

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        return self._store.refusals(stream)


def _stream_of(raw: RawEvent) -> str | None:
    """Return the stream named in an event's text, or None if the text is not a valid event."""
    try:
        body = orjson.loads(raw.text)
        named = (body["stream"], body["event_id"], body["type"], body["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return None
    return body["stream"] if all(isinstance(text, str) for text in named) else None
