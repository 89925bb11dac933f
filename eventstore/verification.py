"""A log checked row by row, whatever engine keeps it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from eventstore.chain import START, Link
from eventstore.codec import Schema, digest
from eventstore.errors import DamagedEvent, SchemaError


class Row(NamedTuple):
    """A stored event with the columns that repeat what its text says."""

    position: int
    stream: str
    version: int
    event_id: str
    type: str
    recorded_at: str
    hash: str
    text: str


class Finding(NamedTuple):
    """One thing wrong. `stream`, `version`, `position` are None where none can be named.

    Kinds: altered (text and hash differ), misfiled (a column contradicts the text), malformed,
    undecodable, gap, unlinked (the link to the version before is wrong), order (position against
    version), anchor (the chain is whole but another than was known), cut_tail, missing (positions
    without an event), engine (the database file itself).
    """

    stream: str | None
    version: int | None
    position: int | None
    kind: str
    message: str


class Source(Protocol):
    """What an engine shows of its rows."""

    def rows(self, stream: str) -> Iterator[Row]:
        """Every column of a stream's rows, in order of version."""
        ...

    def streams(self) -> Iterator[str]:
        """Names of all streams, sorted."""
        ...

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ...


def findings(
    source: Source, schema: Schema, stream: str | None, anchors: Mapping[str, Link]
) -> Iterator[Finding]:
    """What is wrong with one stream, or with all of them and their positions."""
    names = [stream] if stream is not None else sorted({*source.streams(), *anchors})
    for name in names:
        yield from _of_stream(name, source.rows(name), schema, anchors.get(name, START))
    if stream is None:
        yield from _of_positions(source)


def _of_positions(source: Source) -> Iterator[Finding]:
    count, last = source.extent()
    if count != last:
        message = f"expected {last} events up to position {last}, found {count}"
        yield Finding(None, None, None, "missing", message)


def _of_stream(stream: str, rows: Iterable[Row], schema: Schema, anchor: Link) -> Iterator[Finding]:
    link, position = START, 0
    for row in rows:
        if not _well_typed(row):
            yield Finding(stream, link.version + 1, None, "malformed", f"columns of {row}")
            continue
        yield from _of_row(row, link, position, schema)
        if row.version == anchor.version and row.hash != anchor.hash:
            yield _finding(row, "anchor", f"expected hash {anchor.hash}, found {row.hash}")
        link, position = Link(row.version, row.hash), row.position
    if link.version < anchor.version:
        message = f"expected at least version {anchor.version}, found the end at {link.version}"
        yield Finding(stream, link.version + 1, None, "cut_tail", message)


def _well_typed(row: Row) -> bool:
    """Whether the engine gave what the columns are declared to hold; a damaged file may not."""
    types = (int, str, int, str, str, str, str, str)
    return all(map(isinstance, row, types))


def _finding(row: Row, kind: str, message: str) -> Finding:
    return Finding(row.stream, row.version, row.position, kind, message)


def _of_row(row: Row, link: Link, position: int, schema: Schema) -> Iterator[Finding]:
    yield from _of_place(row, link, position)
    found = digest(row.text.encode("utf-8", "surrogateescape"))
    if found != row.hash:
        yield _finding(row, "altered", f"expected the text of hash {row.hash}, found {found}")
        return
    body = _envelope(row.text)
    if body is None:
        yield _finding(row, "malformed", "expected the JSON of an envelope, found another text")
        return
    yield from _of_columns(row, body)
    if row.version == link.version + 1 and body.get("prev_hash") != link.hash:
        message = f"expected a link to {link.hash}, found {body.get('prev_hash')}"
        yield _finding(row, "unlinked", message)
    yield from _of_schema(row, schema)


def _of_place(row: Row, link: Link, position: int) -> Iterator[Finding]:
    expected = link.version + 1
    if row.version != expected:
        message = f"expected version {expected}, found {row.version}"
        yield Finding(row.stream, min(row.version, expected), row.position, "gap", message)
    if row.position <= position:
        message = f"expected a position after {position}, found {row.position}"
        yield _finding(row, "order", message)


def _envelope(text: str) -> dict[str, Any] | None:
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _of_columns(row: Row, body: dict[str, Any]) -> Iterator[Finding]:
    for name in ("stream", "version", "event_id", "type", "recorded_at"):
        said, filed = body.get(name), getattr(row, name)
        if said != filed:
            yield _finding(row, "misfiled", f"expected {name} {said!r}, found it under {filed!r}")


def _of_schema(row: Row, schema: Schema) -> Iterator[Finding]:
    try:
        schema.decode(row.position, row.hash, row.text)
    except (SchemaError, DamagedEvent) as error:
        yield _finding(row, "undecodable", error.message)
