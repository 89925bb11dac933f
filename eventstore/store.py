"""The interface of an event log, and the reading functions that all SQL databases share.

Code for checking and copying a log is imported only when it is used, because most commands only
read.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from eventstore.chain import START, Link, canonical_json
from eventstore.errors import (
    CommandConflict,
    ForeignRule,
    InvalidData,
    StoreDamaged,
    StoreUnreachable,
    UnsoundLog,
    WrongExpectedVersion,
)
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.schema import Schema
from eventstore.sql import Reader, Statements

if TYPE_CHECKING:
    from eventstore.verification import CommandSpan, Finding, StoredRow


class Expected(Enum):
    """The states of a stream that a writer can require when no exact version is known."""

    ANY = "any version"
    NO_STREAM = "no stream"
    STREAM_EXISTS = "an existing stream"


class Claim(NamedTuple):
    """A command's idempotency key (its id), and the digest of its content.

    The log executes each command id once. The digest detects a second use with other content.
    """

    command_id: str
    digest: str


class AppendResult:
    """The events that a command recorded.

    `repeated` means that the command was executed before and this call recorded nothing.
    """

    __slots__ = ("_events", "repeated")

    def __init__(self, events: Iterable[RecordedEvent], repeated: bool) -> None:
        self._events = events
        self.repeated = repeated

    @property
    def events(self) -> tuple[RecordedEvent, ...]:
        """Return the recorded events.

        They are read from the log only at the first access, because many callers never need them.
        """
        if not isinstance(self._events, tuple):
            self._events = tuple(self._events)
        return self._events


class Head(NamedTuple):
    """Version, position and hash of the last event of a stream."""

    version: int
    position: int
    hash: str


class RawEvent(NamedTuple):
    """A stored event exactly as it was hashed: `hash` is the SHA-256 of `text` in UTF-8."""

    position: int
    text: str
    hash: str


class StoredFold(NamedTuple):
    """The cached state of a reducer after it processed a stream up to `version`.

    The state can always be computed again from the events.
    """

    stream: str
    reducer: str
    reducer_version: int
    version: int
    state: bytes


class Refusal(NamedTuple):
    """A command that the rules refused. `at` is UTC: `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""

    at: str
    stream: str
    actor: str
    command: str
    code: str
    message: str
    data: dict[str, Any]


class ExecutedCommand(NamedTuple):
    """A command that was executed, with the first and last version that it recorded.

    If the command recorded no events, the first version is greater than the last.
    """

    command_id: str
    stream: str
    digest: str
    first_version: int
    last_version: int


class ImportBatch(NamedTuple):
    """The data that a log imports from another log in one transaction."""

    events: Sequence[RawEvent] = ()
    commands: Sequence[ExecutedCommand] = ()
    refusals: Sequence[Refusal] = ()
    folds: Sequence[StoredFold] = ()


def is_expected_version(expected: int | Expected, found: int) -> bool:
    """Return whether a stream satisfies a writer's expectation.

    `found` is the last version of the stream, or 0 if the stream does not exist.
    """
    if isinstance(expected, int):
        return expected == found
    if expected is Expected.NO_STREAM:
        return found == 0
    return expected is Expected.ANY or found > 0


def require_expected_version(stream: str, expected: int | Expected, found: int) -> None:
    """Raise WrongExpectedVersion unless a stream satisfies a writer's expectation.

    `found` is the last version of the stream, or 0 if the stream does not exist.
    """
    if not is_expected_version(expected, found):
        demand = expected if isinstance(expected, int) else expected.value
        raise WrongExpectedVersion(stream, demand, found)


def require_no_foreign_rules(foreign: Iterator[str], place: Path | str) -> None:
    """Raise ForeignRule if the database has a trigger or rule that wfctl did not create.

    Such a rule could change rows while they are written.
    """
    for found in foreign:
        raise ForeignRule(place, found)


def require_same_command(claim: Claim, known: ExecutedCommand, stream: str | None = None) -> None:
    """Raise CommandConflict if the command id was already used with other content.

    With `stream`, also raise it if the earlier command wrote to another stream.
    """
    if claim.digest != known.digest or stream not in (None, known.stream):
        raise CommandConflict(claim.command_id, known.stream)


def require_valid_stream_name(stream: str) -> None:
    """Raise InvalidData if the name of the stream is empty or contains a NUL character."""
    if not stream or "\0" in stream:
        raise InvalidData("stream", f"the name {stream!r}")


_Key = TypeVar("_Key", int, str)
Fetch = Callable[[str, tuple[Any, ...]], list[Any]]

# Number of rows fetched at a time. A slow reader fetches in many short reads, and therefore blocks
# neither writers nor the merging of the write-ahead log.
_CHUNK = 1000


def iterate_paged_rows(fetch: Fetch, statement: str, after: int | str) -> Iterator[Any]:
    """Yield all rows of a SQL statement, fetched page by page.

    The statement takes a start and a limit. The first column of a page's last row is the start of
    the next page. The rows may be unordered if another program wrote them.
    """
    while rows := fetch(statement, (after, _CHUNK)):
        yield from rows
        after = rows[-1][0]


class EventStore:
    """An append-only log of event streams in a SQL database, used by one thread at a time.

    A subclass for each database engine implements connecting, appending and waiting.
    """

    def __init__(
        self, place: Path | str, sql: Statements, schema: Schema, clock: Clock, as_is: bool
    ) -> None:
        self._place = place
        self._sql = sql
        self._schema = schema
        self._clock = clock
        self._events = Reader(schema, as_is)
        self._closed = False

    @abstractmethod
    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows of a SELECT statement. Raises StoreClosed."""

    def _fetch_rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Return the rows of a SELECT statement, even if they contain invalid UTF-8.

        The hash of such a damaged row can then be checked.
        """
        try:
            return self._fetch(statement, parameters)
        except StoreDamaged:
            return self._fetch_damaged(statement, parameters)

    def _fetch_damaged(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        return self._fetch(statement, parameters)

    @abstractmethod
    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Run the statements in one transaction. Raises StoreClosed."""

    @abstractmethod
    def _foreign_rules(self) -> Iterable[str]:
        """Return a description of each trigger or rule on the log that wfctl did not create."""

    def _engine_findings(self) -> Iterable[str]:
        """Return the faults that the database engine finds when it checks its own data."""
        return ()

    @abstractmethod
    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> AppendResult:
        """Record `events` at the end of `stream`, all or none, in one transaction.

        After this call returns, the events survive a crash of the process and a loss of power. The
        claim (command id and digest of the command) is checked before the version. If the command
        was executed before with an equal digest, the call records nothing and returns the earlier
        result with `repeated` set.

        Versions continue without a gap. Positions are in commit order, and no reader sees a
        position before all smaller ones. The recording time is read inside the transaction.

        Raises CommandConflict, WrongExpectedVersion, EventIdReused, InvalidData, SchemaError,
        StoreBusy (after the maximum wait), StoreUnwritable or StoreUnreachable. After an error
        nothing is recorded, unless the machine or the connection failed during the commit. Repeat
        the call with the same claim to find out.
        """

    def _require_new(self, stream: str, events: Sequence[NewEvent]) -> None:
        require_valid_stream_name(stream)
        for event in events:
            self._schema.require_readable_event(event)

    def _answer(self, known: ExecutedCommand) -> AppendResult:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return AppendResult(tuple(found), True)

    def _known(self, command_id: str) -> ExecutedCommand | None:
        rows = self._fetch(self._sql.command, (command_id,))
        return ExecutedCommand(command_id, *rows[0]) if rows else None

    def find_executed_command(self, claim: Claim) -> AppendResult | None:
        """Return the result of a command that was executed before, or None if the command is new.

        Raises CommandConflict if the command id was used with other content.
        """
        known = self._known(claim.command_id)
        if known is None:
            return None
        require_same_command(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """Return id and digest of an executed command, or None if the id is unknown."""
        known = self._known(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """Yield the events of a stream with after < version <= upto, or nothing without a stream.

        Each event is checked: its text must match its hash, the hash of the previous event, the
        version, the stream and the columns of its row. The hash before the first event is part of
        `after` if the caller knows it. Otherwise it is read from the row of that version, and this
        row is checked too.

        Reading changes nothing and takes no lock that blocks a writer. Raises UnsoundLog at the
        first event that fails the check, and SchemaError at an event that this program cannot read.
        """
        link = after if isinstance(after, Link) else self._link(stream, after)
        rows = self._iterate_rows_in_range(
            stream, link.version, sys.maxsize if upto is None else upto
        )
        yield from self._events.events(rows, stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        before = self._fetch_rows(self._sql.read, (stream, version - 1, version, 1))
        return self._events.link(before, stream, version)

    def _iterate_rows_in_range(self, stream: str, after: int, upto: int) -> Iterator[Any]:
        """Yield the rows of a stream, with all columns, in order of version."""
        while rows := self._fetch_rows(self._sql.read, (stream, after, upto, _CHUNK)):
            yield from rows
            after = self._require_later_key(after, rows[-1][2])

    def _require_later_key(self, before: _Key, after: _Key) -> _Key:
        """Return `after` if it is beyond `before`, otherwise raise StoreDamaged.

        A damaged database index may lead backwards and would then cause an endless loop.
        """
        if type(after) is not type(before) or after <= before:
            raise StoreDamaged(self._place, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Yield the events of all streams with position > after, in order of position.

        Each event is checked like in `read`.
        """
        return self._events.all_events(self._all_stored(after), self._link)

    def _all_stored(self, after: int) -> Iterator[Any]:
        while rows := self._fetch_rows(self._sql.read_all, (after, _CHUNK)):
            yield from rows
            after = self._require_later_key(after, rows[-1][0])

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[RawEvent]:
        """Yield the stored events of a stream as unparsed text, in order of version.

        The text is exactly what was hashed. The versions are from `after` + 1 to `upto`.
        """
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._iterate_rows_in_range(stream, after, end):
            yield RawEvent(position, text, hash_)

    def all_raw(self) -> Iterator[RawEvent]:
        """Yield the stored events of all streams as unparsed text, in order of position.

        The text is exactly what was hashed.
        """
        for position, *_, hash_, text in iterate_paged_rows(self._fetch, self._sql.read_all, 0):
            yield RawEvent(position, text, hash_)

    def commands(self) -> Iterator[ExecutedCommand]:
        """Yield every executed command, in order of its id.

        Rows that another program wrote are skipped if they are not valid.
        """
        from eventstore.verification import CLAIM

        rows = iterate_paged_rows(self._fetch, self._sql.commands, "")
        return (ExecutedCommand(*row) for row in rows if all(map(isinstance, row, CLAIM)))

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Yield the rows of a stream with all columns, in order of version.

        Damaged text is included unchanged.
        """
        from eventstore.verification import StoredRow

        after = 0
        while found := self._fetch_damaged(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._require_later_key(after, found[-1][2])

    def event_count_and_last_position(self) -> tuple[int, int]:
        """Return the number of events in the log, and the position of the last one."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """Return the versions that each of the given commands recorded, by command id."""
        from eventstore.verification import CommandSpan

        rows = self._fetch_damaged(
            self._sql.spans, (self._encode_as_single_parameter(command_ids),)
        )
        return {id_: CommandSpan(*span) for id_, *span in rows}

    def _encode_as_single_parameter(self, values: Sequence[str]) -> Any:
        """Return several values as a single SQL parameter."""
        return list(values)

    def head(self, stream: str) -> Head | None:
        """Return the last event of a stream in constant time, or None without a stream."""
        rows = self._fetch(self._sql.head, (stream,))
        if rows and not all(map(isinstance, rows[0], (int, int, str))):
            last = 0
            for event in self.read(stream):
                last = event.version
            reason = "the columns of the row have the wrong types"
            raise UnsoundLog(stream, last + 1, "malformed", reason)
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """Yield the names of all streams in sorted order."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = self._require_later_key(name, rows[0][0])
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """Yield all faults of the log (or of one stream), the first invalid version first.

        `anchors` gives, by stream, a version and hash that are known from outside the log. Only
        anchors reveal that the last events were removed or that the whole history was rewritten.
        """
        from eventstore.verification import Finding, find_faults

        try:
            for message in self._engine_findings() if stream is None else ():
                yield Finding(None, None, None, "engine", message)
            for rule in self._foreign_rules():
                message = f"found {rule}, which wfctl did not create"
                yield Finding(stream, None, None, "foreign_rule", message)
            yield from find_faults(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def find_foreign_rows(self) -> Iterator[Finding]:
        """Yield a finding for each row that is not a valid event, command or refusal.

        Such rows have no effect. But another program wrote them, so a check of the log reports
        them.
        """
        from eventstore.verification import Finding, find_command_record_fault, parse_refusal

        def stray(stream: Any, message: str) -> Finding:
            named = stream if isinstance(stream, str) else None
            return Finding(named, None, None, "stray", f"{message}; wfctl ignores the row")

        for row in iterate_paged_rows(self._fetch_rows, self._sql.claims, ""):
            why = find_command_record_fault(row)
            if why is not None:
                yield stray(row[1], f"commands, {row[0]!r:.80}: {why}")
        for row in iterate_paged_rows(self._fetch_rows, self._sql.refusals, 0):
            found = parse_refusal(row[1:])
            if isinstance(found, str):
                yield stray(row[2], f"refusals, row {row[0]}: {found}")

    def save_fold(self, fold: StoredFold) -> None:
        """Store the state of a reducer, and replace its previous state."""
        old = (self._sql.delete_fold, (fold.stream, fold.reducer))
        self._write(old, (self._sql.insert_fold, fold))

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """Return the stored state of a reducer, or None if this reducer version has stored none."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """Store a refusal (a command that the rules refused) for audits.

        A refusal is not an event, and no hash chain includes it.
        """
        data = canonical_json(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Yield the stored refusals, of all streams or of one stream, in order of recording.

        Rows that another program wrote are skipped if they are not valid refusals.
        """
        from eventstore.verification import parse_refusal

        found = (
            parse_refusal(row[1:])
            for row in iterate_paged_rows(self._fetch_rows, self._sql.refusals, 0)
        )
        kept = (Refusal(*parts) for parts in found if not isinstance(parts, str))
        return (one for one in kept if stream in (None, one.stream))

    @abstractmethod
    def wait(self, after: int, timeout: float) -> int:
        """Wait until the log has a position beyond `after`, and return the last position.

        Wait at most `timeout` seconds. An append by any process ends the wait within half a second,
        without busy polling.
        """

    @abstractmethod
    def import_batch(self, cargo: ImportBatch) -> None:
        """Record data of another log, with unchanged hashes, in one transaction.

        Positions are new, in the given order. The caller must ensure that the events continue their
        streams. Raises TransferConflict if a part of the data already exists.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and locks. A second call does nothing."""

    def release_connection(self) -> None:
        """Return an idle connection to the connection pooler, for other processes of this program.

        The next call reconnects. Without a pooler, do nothing.
        """

    def session_user(self) -> str | None:
        """Return the account name that the database server verified, or None without a server."""
        return None

    def retry_while_unreachable(
        self, asks_again: Callable[[StoreUnreachable, float], bool]
    ) -> None:
        """Retry when the database server does not answer, as long as ``asks_again`` returns True.

        Do nothing for a log without a server.
        """


# Seconds after which a reader checks for new events, even without a notification.
_AT_THE_LATEST = 60.0


def subscribe(
    store: EventStore, *, after: int = 0, stream: str | None = None
) -> Iterator[RecordedEvent]:
    """Yield every event after `after`, in order, and wait forever for new ones.

    `after` is a position in the log or, with `stream`, a version of this stream. An event that
    another process appends arrives within half a second. Each event arrives at least once: to
    continue later, the caller stores the position (or version) of the last event it processed.

    Raises the errors of `read`. On a server, raises StoreUnreachable if the server stays away for
    longer than the store waits.
    """
    position = 0
    while True:
        found = store.read_all(after=after) if stream is None else store.read(stream, after=after)
        for event in found:
            after = event.position if stream is None else event.version
            yield event
        position = store.wait(position, _AT_THE_LATEST)
