"""A log checked row by row, whatever engine keeps it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import orjson

from eventstore.chain import START, Link, Schema, digest
from eventstore.errors import DamagedEvent, SchemaError

_CLAIMS_AT_ONCE = 500
#: The kinds of value in the columns of a claim.
CLAIM = (str, str, str, int, int)


class StoredRow(NamedTuple):
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
    """One thing wrong. `stream`, `version`, `position` are None if none can be named.

    Kinds: altered (text and hash differ), misfiled (a column contradicts the text), malformed,
    undecodable, gap, unlinked (the link to the version before is wrong), order (position against
    version), anchor (the chain is whole but another than was known), cut_tail, missing (positions
    without an event), unclaimed (the event is sound, and its command could be carried out
    again), set_aside (in its place, and is ignored: it cannot be what its type says),
    stray (a row beside the events that is no claim and no refusal, and changes nothing),
    foreign_rule (the database would do something of its own with what is appended), engine (the
    database file itself).
    """

    stream: str | None
    version: int | None
    position: int | None
    kind: str
    message: str


class CommandSpan(NamedTuple):
    """The versions of a stream, both ends included, that a command claims to have recorded."""

    stream: str
    first: int
    last: int


class RowSource(Protocol):
    """What an engine shows of its rows."""

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Every column of a stream's rows, in order of version."""
        ...

    def streams(self) -> Iterator[str]:
        """Names of all streams, sorted."""
        ...

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ...

    def spans(self, command_ids: Sequence[str]) -> Mapping[str, CommandSpan]:
        """What each of these commands claims to have recorded, by its id; few at a time."""
        ...


def findings(
    source: RowSource, schema: Schema, stream: str | None, anchors: Mapping[str, Link]
) -> Iterator[Finding]:
    """What is wrong with one stream, or with all of them and their positions."""
    schema = replace(schema, unknown=None)
    names = [stream] if stream is not None else sorted({*source.streams(), *anchors})
    for name in names:
        yield from _of_stream(name, source, schema, anchors.get(name, START))
    count, last = source.extent() if stream is None else (0, 0)
    if count != last:
        message = f"expected {last} events up to position {last}, found {count}"
        yield Finding(None, None, None, "missing", message)


#: Characters of a damaged row that are shown.
_SHOWN = 400


class _Before(NamedTuple):
    """What came before a row of a stream, as far as it could be read."""

    stream: str
    link: Link
    position: int


def _of_stream(stream: str, source: RowSource, schema: Schema, anchor: Link) -> Iterator[Finding]:
    before = _Before(stream, START, 0)
    sound: list[StoredRow] = []
    for row in source.rows(stream):
        found = list(_of_row(row, before, schema, anchor))
        if found or len(sound) == _CLAIMS_AT_ONCE:
            yield from _of_claims(sound, source)
            yield from found
            sound.clear()
        if not found:
            sound.append(row)
        if _well_typed(row):
            before = _Before(stream, Link(row.version, row.hash), row.position)
    yield from _of_claims(sound, source)
    end = before.link.version
    if end < anchor.version:
        message = f"expected at least version {anchor.version}, found the end at {end}"
        yield Finding(stream, end + 1, None, "cut_tail", message)


def _of_claims(rows: Sequence[StoredRow], source: RowSource) -> Iterator[Finding]:
    """Of rows whose text is what was hashed, those whose command is not claimed for them."""
    commands = [str(orjson.loads(row.text).get("command_id")) for row in rows]
    spans = source.spans(sorted({*commands}))
    for row, command in zip(rows, commands, strict=True):
        span = spans.get(command)
        if not covers(span, row.stream, row.version):
            message = f"expected a claim of command {command}, found {span or 'none'}"
            yield _finding(row, "unclaimed", message)


def covers(span: CommandSpan | None, stream: str, version: int) -> bool:
    """Whether what a command claims, if it is claimed, holds a version of a stream."""
    if span is None or not all(map(isinstance, span, (str, int, int))):
        return False
    return span.stream == stream and span.first <= version <= span.last


def _well_typed(row: StoredRow) -> bool:
    """Whether the engine gave what the columns are declared to hold; a damaged file may not."""
    types = (int, str, int, str, str, str, str, str)
    return all(map(isinstance, row, types))


def _finding(row: StoredRow, kind: str, message: str) -> Finding:
    return Finding(row.stream, row.version, row.position, kind, message)


def displaced(row: StoredRow, stream: str, after: Link) -> Iterator[Finding]:
    """What keeps a row from the place behind a link: its columns, its number, its text."""
    if not _well_typed(row):
        yield Finding(stream, after.version + 1, None, "malformed", f"columns of {row}"[:_SHOWN])
        return
    if row.version != after.version + 1:
        message = f"expected version {after.version + 1}, found {row.version}"
        yield Finding(stream, min(row.version, after.version + 1), row.position, "gap", message)
    found = digest(row.text.encode("utf-8", "surrogateescape"))
    if found != row.hash:
        message = f"expected the text of hash {row.hash:.80}, found {found}"
        yield _finding(row, "altered", message)
        return
    body = _envelope(row.text)
    if body is None:
        yield _finding(row, "malformed", "expected the JSON of an envelope, found another text")
        return
    for name in ("stream", "version", "event_id", "type", "recorded_at"):
        said, filed = body.get(name), getattr(row, name)
        if said != filed:
            message = f"expected {name} {said!r:.80}, found it under {filed!r:.80}"
            yield _finding(row, "misfiled", message)
    if row.version == after.version + 1 and body.get("prev_hash") != after.hash:
        message = (
            f"expected a link to {after.hash or 'nothing'}, found {body.get('prev_hash')!r:.80}"
        )
        yield _finding(row, "unlinked", message)


def _of_row(row: StoredRow, before: _Before, schema: Schema, anchor: Link) -> Iterator[Finding]:
    wrong = list(displaced(row, before.stream, before.link))
    yield from wrong
    if not _well_typed(row):
        return
    if row.position <= before.position:
        message = f"expected a position after {before.position}, found {row.position}"
        yield _finding(row, "order", message)
    if not {one.kind for one in wrong} & {"altered", "malformed"}:
        # What the program sets aside, only those can list who fold.
        try:
            schema.event(row.position, row.hash, orjson.loads(row.text))
        except (SchemaError, DamagedEvent) as error:
            yield _finding(row, "undecodable", error.message)
    if row.version == anchor.version and row.hash != anchor.hash:
        yield _finding(row, "anchor", f"expected hash {anchor.hash}, found {row.hash}")


def _envelope(text: str) -> dict[str, Any] | None:
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


# Letters of a command's id.
_LONGEST = 1000


def fault_of_claim(row: tuple[Any, ...]) -> str | None:
    """Why a row is no claim: its command, stream, digest, versions, and the texts at both."""
    *claim, first, last = row
    if not all(map(isinstance, claim, CLAIM)):
        return "expected texts and numbers, found another kind of value"
    command, _, _, begin, end = claim
    if not 0 < len(command) <= _LONGEST or "\0" in command:
        return f"expected an id of 1 to {_LONGEST:,} letters, found {len(command):,}"
    if begin > end:
        return None  # a command that recorded nothing
    for version, text in ((begin, first), (end, last)):
        found = _command_of(text)
        if found is None:
            return f"it claims version {version}, which does not exist"
        if found != command:
            return f"it claims version {version}, which is of command {found!r:.80}"
    return None


def _command_of(text: Any) -> str | None:
    """The command of an event by its text; None if there is no text."""
    if text is None:
        return None
    try:
        body = orjson.loads(text)
    except (ValueError, TypeError):
        body = None
    return str(body.get("command_id")) if isinstance(body, dict) else "(no event)"


def refused(row: tuple[Any, ...]) -> tuple[Any, ...] | str:
    """The parts of a refusal from the columns of a row, or why they cannot be those of one."""
    *texts, data = row
    if not all(isinstance(text, str) for text in row):
        return "expected texts, found another kind of value"
    try:
        datetime.fromisoformat(texts[0])
        "".join(row).encode()
    except UnicodeEncodeError:
        return "expected texts, found bytes that are not text"
    except ValueError:
        return f"expected a time, found {texts[0]!r:.80}"
    try:
        said = orjson.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return f"expected an object of JSON as its data, found {data!r:.80}"
    return (*texts, said)
