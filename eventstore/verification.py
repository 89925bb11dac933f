"""Check an event log row by row. The checks do not depend on the database engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import orjson

from eventstore.chain import START, Link, sha256_hex
from eventstore.errors import DamagedEvent, SchemaError
from eventstore.schema import Schema

_CLAIMS_AT_ONCE = 500
#: Types of the columns of a command's record.
CLAIM = (str, str, str, int, int)


class StoredRow(NamedTuple):
    """A row of the events table: the text of an event, and columns that repeat its fields."""

    position: int
    stream: str
    version: int
    event_id: str
    type: str
    recorded_at: str
    hash: str
    text: str


class Finding(NamedTuple):
    """A fault that a check of the log found.

    `stream`, `version`, `position` are None if unknown.

    Kinds: altered (text and hash differ), misfiled (a column contradicts the text), malformed,
    undecodable, gap, unlinked (the link to the previous version is wrong), order (positions
    contradict versions), anchor (the chain is intact but differs from a known hash), cut_tail (the
    last events are missing), missing (positions without an event), unclaimed (the event is valid,
    but its command has no record and could run again), set_aside (an ignored event that does not
    fit its type), stray (a row that is not a valid event, command or refusal and has no effect),
    foreign_rule (a rule in the database could change appended rows), engine (the database file is
    damaged).
    """

    stream: str | None
    version: int | None
    position: int | None
    kind: str
    message: str


class CommandSpan(NamedTuple):
    """The first and last version that a command recorded in a stream."""

    stream: str
    first: int
    last: int


class RowSource(Protocol):
    """The interface of a database whose rows are verified."""

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Yield all columns of a stream's rows, in order of version."""
        ...

    def streams(self) -> Iterator[str]:
        """Return the names of all streams, sorted."""
        ...

    def event_count_and_last_position(self) -> tuple[int, int]:
        """Return the number of events in the log, and the position of the last one."""
        ...

    def spans(self, command_ids: Sequence[str]) -> Mapping[str, CommandSpan]:
        """Return the versions that each of the given commands recorded, by command id."""
        ...


def find_faults(
    source: RowSource, schema: Schema, stream: str | None, anchors: Mapping[str, Link]
) -> Iterator[Finding]:
    """Yield all faults of one stream. Without a stream, check all streams and positions.

    `anchors` gives versions and hashes that are known from outside the log.
    """
    schema = replace(schema, unknown=None)
    names = [stream] if stream is not None else sorted({*source.streams(), *anchors})
    for name in names:
        yield from _of_stream(name, source, schema, anchors.get(name, START))
    count, last = source.event_count_and_last_position() if stream is None else (0, 0)
    if count != last:
        message = f"expected {last} events up to position {last}, found {count}"
        yield Finding(None, None, None, "missing", message)


#: Maximum number of characters of a damaged row in a message.
_SHOWN = 400


class _PreviousRow(NamedTuple):
    """The last readable row before a row of a stream."""

    stream: str
    link: Link
    position: int


def _of_stream(stream: str, source: RowSource, schema: Schema, anchor: Link) -> Iterator[Finding]:
    before = _PreviousRow(stream, START, 0)
    sound: list[StoredRow] = []
    for row in source.rows(stream):
        found = list(_of_row(row, before, schema, anchor))
        if found or len(sound) == _CLAIMS_AT_ONCE:
            yield from _find_unclaimed_events(sound, source)
            yield from found
            sound.clear()
        if not found:
            sound.append(row)
        if _has_declared_column_types(row):
            before = _PreviousRow(stream, Link(row.version, row.hash), row.position)
    yield from _find_unclaimed_events(sound, source)
    end = before.link.version
    if end < anchor.version:
        message = f"the log must have at least version {anchor.version}, but it ends at {end}"
        yield Finding(stream, end + 1, None, "cut_tail", message)


def _find_unclaimed_events(rows: Sequence[StoredRow], source: RowSource) -> Iterator[Finding]:
    """Yield a finding for each valid event that the record of its command does not include."""
    commands = [str(orjson.loads(row.text).get("command_id")) for row in rows]
    spans = source.spans(sorted({*commands}))
    for row, command in zip(rows, commands, strict=True):
        span = spans.get(command)
        if not is_covered_by(span, row.stream, row.version):
            message = f"expected a record of command {command}, found {span or 'none'}"
            yield _build_finding(row, "unclaimed", message)


def is_covered_by(span: CommandSpan | None, stream: str, version: int) -> bool:
    """Return whether the record of a command includes a version of a stream.

    Return False if the command has no record.
    """
    if span is None or not all(map(isinstance, span, (str, int, int))):
        return False
    return span.stream == stream and span.first <= version <= span.last


def _has_declared_column_types(row: StoredRow) -> bool:
    """Return whether each column of the row has the declared type.

    A damaged database file may contain values of other types.
    """
    types = (int, str, int, str, str, str, str, str)
    return all(map(isinstance, row, types))


def _build_finding(row: StoredRow, kind: str, message: str) -> Finding:
    return Finding(row.stream, row.version, row.position, kind, message)


def find_row_faults(row: StoredRow, stream: str, after: Link) -> Iterator[Finding]:
    """Yield the reasons why a row cannot be the next event of a stream.

    `after` is the version and hash of the previous event. The checks cover the columns of the row,
    its version, its hash and its text.
    """
    if not _has_declared_column_types(row):
        yield Finding(stream, after.version + 1, None, "malformed", f"columns of {row}"[:_SHOWN])
        return
    if row.version != after.version + 1:
        message = f"expected version {after.version + 1}, found {row.version}"
        yield Finding(stream, min(row.version, after.version + 1), row.position, "gap", message)
    found = sha256_hex(row.text.encode("utf-8", "surrogateescape"))
    if found != row.hash:
        message = f"the text of the event does not match its hash {row.hash:.80}: found {found}"
        yield _build_finding(row, "altered", message)
        return
    body = _parse_envelope(row.text)
    if body is None:
        yield _build_finding(row, "malformed", "the text of the event is not valid JSON")
        return
    for name in ("stream", "version", "event_id", "type", "recorded_at"):
        said, filed = body.get(name), getattr(row, name)
        if said != filed:
            message = (
                f"the text of the event has {name} {said!r:.80}, but its row has {filed!r:.80}"
            )
            yield _build_finding(row, "misfiled", message)
    if row.version == after.version + 1 and body.get("prev_hash") != after.hash:
        message = (
            f"the event must follow the hash {after.hash or 'nothing'}, but its prev_hash is "
            f"{body.get('prev_hash')!r:.80}"
        )
        yield _build_finding(row, "unlinked", message)


def _of_row(
    row: StoredRow, before: _PreviousRow, schema: Schema, anchor: Link
) -> Iterator[Finding]:
    wrong = list(find_row_faults(row, before.stream, before.link))
    yield from wrong
    if not _has_declared_column_types(row):
        return
    if row.position <= before.position:
        message = f"the position must be above {before.position}, found {row.position}"
        yield _build_finding(row, "order", message)
    if not {one.kind for one in wrong} & {"altered", "malformed"}:
        # Only events that cannot be decoded are reported here. Ignored events are reported by
        # callers that fold the log.
        try:
            schema.event(row.position, row.hash, orjson.loads(row.text))
        except (SchemaError, DamagedEvent) as error:
            yield _build_finding(row, "undecodable", error.message)
    if row.version == anchor.version and row.hash != anchor.hash:
        yield _build_finding(row, "anchor", f"expected hash {anchor.hash}, found {row.hash}")


def _parse_envelope(text: str) -> dict[str, Any] | None:
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


# Maximum number of characters of a command id.
_LONGEST = 1000


def find_command_record_fault(row: tuple[Any, ...]) -> str | None:
    """Return the reason why a row is not a valid record of a command, or None if it is.

    The row has the columns of the record, and the texts of the command's first and last event.
    """
    *claim, first, last = row
    if not all(map(isinstance, claim, CLAIM)):
        return "expected strings and numbers, found another type of value"
    command, _, _, begin, end = claim
    if not 0 < len(command) <= _LONGEST or "\0" in command:
        return f"expected an id of 1 to {_LONGEST:,} characters, found {len(command):,}"
    if begin > end:
        return None  # the command recorded nothing
    for version, text in ((begin, first), (end, last)):
        found = _command_of(text)
        if found is None:
            return f"the row names version {version}, which does not exist"
        if found != command:
            return f"the row names version {version}, which belongs to command {found!r:.80}"
    return None


def _command_of(text: Any) -> str | None:
    """Return the command id in an event's text, or None if there is no text."""
    if text is None:
        return None
    try:
        body = orjson.loads(text)
    except (ValueError, TypeError):
        body = None
    return str(body.get("command_id")) if isinstance(body, dict) else "(no event)"


def parse_refusal(row: tuple[Any, ...]) -> tuple[Any, ...] | str:
    """Return the values of a refusal, or the reason why the row is not a valid refusal.

    A refusal is the record of a command that the rules refused.
    """
    *texts, data = row
    if not all(isinstance(text, str) for text in row):
        return "expected strings, found another type of value"
    try:
        datetime.fromisoformat(texts[0])
        "".join(row).encode()
    except UnicodeEncodeError:
        return "expected strings, found bytes that are not text"
    except ValueError:
        return f"expected a time, found {texts[0]!r:.80}"
    try:
        said = orjson.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return f"expected a JSON object as data, found {data!r:.80}"
    return (*texts, said)
