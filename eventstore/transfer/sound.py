"""The sound part of a log: of each stream the events before the first that is not in its place."""

from collections.abc import Iterator

import orjson

from eventstore.codec import Schema
from eventstore.errors import DamagedEvent, SchemaError
from eventstore.store import Claimed, EventStore, Raw, Refusal
from eventstore.transfer.copy import Chains


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
