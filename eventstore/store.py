"""The interface of an event log, and its reading functions for a SQL database.

A command that only reads imports no code for checking or moving a log.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from eventstore.chain import START, Link, Schema, canonical_json
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
from eventstore.sql import Reader, Statements

if TYPE_CHECKING:
    from eventstore.verification import CommandSpan, Finding, StoredRow


class Expected(Enum):
    """The expectations about a stream that a writer can give instead of an exact version."""

    ANY = "any version"
    NO_STREAM = "no stream"
    STREAM_EXISTS = "an existing stream"


class Claim(NamedTuple):
    """A command's idempotency key and the digest of its content."""

    command_id: str
    digest: str


class Appended:
    """The events of a command. `repeated` means that an earlier append recorded them."""

    __slots__ = ("_events", "repeated")

    def __init__(self, events: Iterable[RecordedEvent], repeated: bool) -> None:
        self._events = events
        self.repeated = repeated

    @property
    def events(self) -> tuple[RecordedEvent, ...]:
        """Return the events as `read` does.

        They are read at the first access, because many callers never
        need them.
        """
        if not isinstance(self._events, tuple):
            self._events = tuple(self._events)
        return self._events


class Head(NamedTuple):
    """The last event of a stream."""

    version: int
    position: int
    hash: str


class Raw(NamedTuple):
    """A stored event exactly as it was hashed: `hash` is the SHA-256 of `text` in UTF-8."""

    position: int
    text: str
    hash: str


class StoredFold(NamedTuple):
    """The state of a reducer after `version` of a stream: a cache, never a source."""

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


class Claimed(NamedTuple):
    """A claimed command and the versions that it recorded; none if first is after last."""

    command_id: str
    stream: str
    digest: str
    first_version: int
    last_version: int


class Cargo(NamedTuple):
    """The data that a log imports from another log in one transaction."""

    events: Sequence[Raw] = ()
    commands: Sequence[Claimed] = ()
    refusals: Sequence[Refusal] = ()
    folds: Sequence[StoredFold] = ()


def is_met(expected: int | Expected, found: int) -> bool:
    """Return whether a stream at version `found` (0: no stream) is as expected."""
    if isinstance(expected, int):
        return expected == found
    if expected is Expected.NO_STREAM:
        return found == 0
    return expected is Expected.ANY or found > 0


def require_version(stream: str, expected: int | Expected, found: int) -> None:
    """Raise WrongExpectedVersion unless a stream at `found` (0: no stream) is as expected."""
    if not is_met(expected, found):
        demand = expected if isinstance(expected, int) else expected.value
        raise WrongExpectedVersion(stream, demand, found)


def require_own_rules(foreign: Iterator[str], place: Path | str) -> None:
    """Raise ForeignRule if a foreign rule could change the rows that are written."""
    for found in foreign:
        raise ForeignRule(place, found)


def require_same(claim: Claim, known: Claimed, stream: str | None = None) -> None:
    """Raise CommandConflict unless the claim equals that of the known command."""
    if claim.digest != known.digest or stream not in (None, known.stream):
        raise CommandConflict(claim.command_id, known.stream)


def require_name(stream: str) -> None:
    """Raise InvalidData unless every engine can store the name of the stream."""
    if not stream or "\0" in stream:
        raise InvalidData("stream", f"the name {stream!r}")


_Key = TypeVar("_Key", int, str)
Fetch = Callable[[str, tuple[Any, ...]], list[Any]]

# Number of rows fetched at a time.
# Each fetch is one short read, so a slow reader blocks neither a writer nor the folding of the log.
_CHUNK = 1000


def fetch_pages(fetch: Fetch, statement: str, after: int | str) -> Iterator[Any]:
    """Yield the rows of a statement that takes a start and a limit.

    Column 1 is the start of the next page. The rows may be in any order if another program wrote
    them.
    """
    while rows := fetch(statement, (after, _CHUNK)):
        yield from rows
        after = rows[-1][0]


class EventStore:
    """An append-only log of streams in a SQL database, used by one thread at a time.

    Each engine defines how to append, wait and connect.
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
        """Return the rows of a reading statement. Raises StoreClosed."""

    def _fetch_rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Return rows like `_fetch`, and keep text that is not UTF-8, to check its hash."""
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
        """Return the faults that the engine finds in its own database."""
        return ()

    @abstractmethod
    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> Appended:
        """Record `events` at the end of `stream`, all or none, in one transaction.

        After this call returns, the events survive the death of the process and loss of power. The
        claim is checked before the version: an equal digest returns the first answer with
        `repeated` set and records nothing, as long as the log exists. Versions continue without a
        gap. Positions are in commit order, and no reader sees a position before all smaller ones.
        Time and offset are read inside the transaction.

        Raises CommandConflict, WrongExpectedVersion, EventIdReused, InvalidData, SchemaError,
        StoreBusy (after the maximum wait), StoreUnwritable or StoreUnreachable. After an error
        nothing is recorded, unless the machine or the connection failed during the commit. Repeat
        the call with the same claim to find out.
        """

    def _require_new(self, stream: str, events: Sequence[NewEvent]) -> None:
        require_name(stream)
        for event in events:
            self._schema.check_new(event)

    def _answer(self, known: Claimed) -> Appended:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return Appended(tuple(found), True)

    def _known(self, command_id: str) -> Claimed | None:
        rows = self._fetch(self._sql.command, (command_id,))
        return Claimed(command_id, *rows[0]) if rows else None

    def claimed(self, claim: Claim) -> Appended | None:
        """Return the first answer to a command, or None if it is new. Raises CommandConflict."""
        known = self._known(claim.command_id)
        if known is None:
            return None
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """Return the claim of a recorded command, or None if the command is unknown."""
        known = self._known(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """Yield the events with after < version <= upto, none without a stream.

        Each event is checked: its text must match the hash, the previous link, the version, the
        stream and the columns of its row. The link before the first event is `after` if the caller
        knows it, otherwise it is taken from the row of that version, whose own text is checked.
        Takes no lock that a writer waits for. Raises UnsoundLog at the first event that fails the
        check and SchemaError at one that this program cannot read. Never changes the log.
        """
        link = after if isinstance(after, Link) else self._link(stream, after)
        rows = self._stored(stream, link.version, sys.maxsize if upto is None else upto)
        yield from self._events.events(rows, stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        before = self._fetch_rows(self._sql.read, (stream, version - 1, version, 1))
        return self._events.link(before, stream, version)

    def _stored(self, stream: str, after: int, upto: int) -> Iterator[Any]:
        """Yield the rows of a stream, with every column, in order of version."""
        while rows := self._fetch_rows(self._sql.read, (stream, after, upto, _CHUNK)):
            yield from rows
            after = self._check_progress(after, rows[-1][2])

    def _check_progress(self, before: _Key, after: _Key) -> _Key:
        """Return `after`, and raise StoreDamaged unless it is beyond `before`.

        A damaged index may lead backwards, and so cause an endless loop.
        """
        if type(after) is not type(before) or after <= before:
            raise StoreDamaged(self._place, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Yield the events of all streams with position > after, in order of position.

        Check the place of each event in its stream like `read`.
        """
        return self._events.all_events(self._all_stored(after), self._link)

    def _all_stored(self, after: int) -> Iterator[Any]:
        while rows := self._fetch_rows(self._sql.read_all, (after, _CHUNK)):
            yield from rows
            after = self._check_progress(after, rows[-1][0])

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """Yield the stored events of a stream, undecoded, exactly as hashed, in order of version.

        The versions are from `after` + 1 to `upto`.
        """
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._stored(stream, after, end):
            yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """Yield the stored events of all streams exactly as hashed, in order of position."""
        for position, *_, hash_, text in fetch_pages(self._fetch, self._sql.read_all, 0):
            yield Raw(position, text, hash_)

    def commands(self) -> Iterator[Claimed]:
        """Yield every claimed command, in order of its id.

        A row without a valid claim was written by another program.
        """
        from eventstore.verification import CLAIM

        rows = fetch_pages(self._fetch, self._sql.commands, "")
        return (Claimed(*row) for row in rows if all(map(isinstance, row, CLAIM)))

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Yield all columns of a stream's rows in order of version, and keep damaged text."""
        from eventstore.verification import StoredRow

        after = 0
        while found := self._fetch_damaged(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._check_progress(after, found[-1][2])

    def extent(self) -> tuple[int, int]:
        """Return the number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """Return the versions that each of these commands claims, by command id."""
        from eventstore.verification import CommandSpan

        rows = self._fetch_damaged(self._sql.spans, (self._as_one(command_ids),))
        return {id_: CommandSpan(*span) for id_, *span in rows}

    def _as_one(self, values: Sequence[str]) -> Any:
        """Return several values as one parameter."""
        return list(values)

    def head(self, stream: str) -> Head | None:
        """Return the last event of a stream, or None without a stream, in constant time."""
        rows = self._fetch(self._sql.head, (stream,))
        if rows and not all(map(isinstance, rows[0], (int, int, str))):
            last = 0
            for event in self.read(stream):
                last = event.version
            reason = "the columns of the row have the wrong types"
            raise UnsoundLog(stream, last + 1, "malformed", reason)
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """Return the names of all streams, sorted."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = self._check_progress(name, rows[0][0])
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """Yield all faults of the log (or of one stream), first bad version first.

        `anchors` gives, by stream, a version and hash known from elsewhere. Only anchors reveal
        that the end of a log was cut or its history rewritten.
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

    def strays(self) -> Iterator[Finding]:
        """Return all rows, in every stream, that are neither events, claims nor refusals.

        These rows change nothing, because claims are valid only for their events, and refusals only
        by their content. But another program wrote them, so a check of the log reports them.
        """
        from eventstore.verification import Finding, fault_of_claim, parse_refusal

        def stray(stream: Any, message: str) -> Finding:
            named = stream if isinstance(stream, str) else None
            return Finding(named, None, None, "stray", f"{message}; wfctl ignores the row")

        for row in fetch_pages(self._fetch_rows, self._sql.claims, ""):
            why = fault_of_claim(row)
            if why is not None:
                yield stray(row[1], f"commands, {row[0]!r:.80}: {why}")
        for row in fetch_pages(self._fetch_rows, self._sql.refusals, 0):
            found = parse_refusal(row[1:])
            if isinstance(found, str):
                yield stray(row[2], f"refusals, row {row[0]}: {found}")

    def save_fold(self, fold: StoredFold) -> None:
        """Store the state of a reducer, replacing the previous state."""
        old = (self._sql.delete_fold, (fold.stream, fold.reducer))
        self._write(old, (self._sql.insert_fold, fold))

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """Return the stored state, or None if this version of the reducer stored no state."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """Store a refusal for audit. A refusal is not an event and is in no chain."""
        data = canonical_json(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Yield the stored refusals, of all streams or of one stream, in order of recording.

        Ignore rows of other programs that are not valid refusals.
        """
        from eventstore.verification import parse_refusal

        found = (
            parse_refusal(row[1:]) for row in fetch_pages(self._fetch_rows, self._sql.refusals, 0)
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
    def take_in(self, cargo: Cargo) -> None:
        """Record the data that another log contains, with unchanged hashes, in one transaction.

        Positions are new, in the given order. The caller must ensure that the events continue their
        streams. Raises TransferConflict if a part of the data already exists.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and locks. A second call does nothing."""

    def release_connection(self) -> None:
        """Return an idle connection to a pooler, for another connection of this program.

        The next call of the store connects again. A store without a pooler does nothing.
        """

    def session_user(self) -> str | None:
        """Return the name of the account that the database checked, or None without a server."""
        return None

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """Retry a server that does not answer, as long as ``asks_again`` returns true.

        A log without a server does nothing.
        """


# Seconds after which a reader checks again, even without a notification.
_AT_THE_LATEST = 60.0


def subscribe(
    store: EventStore, *, after: int = 0, stream: str | None = None
) -> Iterator[RecordedEvent]:
    """Yield every event after position (with a stream: version) `after`, in order, forever.

    An event that another process appends arrives within half a second, without busy polling. Each
    event arrives at least once. The reader stores the position (or version) of the last processed
    event and continues after it. Raises the errors of reading; on a server, StoreUnreachable if the
    server stays away for longer than the store waits.
    """
    position = 0
    while True:
        found = store.read_all(after=after) if stream is None else store.read(stream, after=after)
        for event in found:
            after = event.position if stream is None else event.version
            yield event
        position = store.wait(position, _AT_THE_LATEST)
